package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretFile(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\n" + strings.Repeat("b3BlbnNzaC1rZXktdjEA", 8) + "\n"
	for name, tt := range map[string]struct {
		file, content string
		want          bool
	}{
		"environment":         {".env", "A=1", true},
		"of a stage":          {"deploy/.env.production", "A=1", true},
		"example":             {".env.example", "A=1", false},
		"ssh key by name":     {"home/id_ed25519", "", true},
		"public key":          {"id_ed25519.pub", "ssh-ed25519 AAAA", false},
		"private key":         {"notes.txt", "see\n" + key, true},
		"certificate":         {"cert.pem", "-----BEGIN CERTIFICATE-----\n" + strings.Repeat("A", 64), false},
		"key without its end": {"k.pem", "-----BEGIN RSA PRIVATE KEY-----\nabc", true},
		"key of a block":      {"k", "\n-----BEGIN PGP PRIVATE KEY BLOCK-----\r\nVersion: 1\r\n", true},
		"header alone":        {"header.txt", "-----BEGIN PRIVATE KEY-----", false},
		"mention of a key":    {"parse.go", `strings.HasPrefix(s, "-----BEGIN PRIVATE KEY-----")`, false},
		"token":               {"a.go", `const t = "ghp_` + strings.Repeat("aB3", 12) + `"`, true},
		"at the start":        {"token", "ghp_" + strings.Repeat("aB3", 12), true},
		"model key":           {"a.py", "key='sk-proj-" + strings.Repeat("aB3_", 12) + "'", true},
		"placeholder":         {"README.md", "sk-" + strings.Repeat("x", 48), false},
		"inside a word":       {"a.css", ".task-list-with-a-very-long-class-name-that-goes-on-and-on {}", false},
		"aws":                 {"a.tf", `key = "AKIAQ3EGUZ7JH5WXYB2D"`, true},
		"second occurrence":   {"a", "sk-short and sk-" + strings.Repeat("aB3d", 12), true},
		"plain":               {"main.go", "package main\n", false},
	} {
		require.Equal(t, tt.want, SecretFile(tt.file, []byte(tt.content)), name)
	}
	require.False(t, SecretFile("big", append([]byte(key), make([]byte, maxScanned)...)))
}

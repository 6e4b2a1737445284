package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every form of token is found in a file. A shorter text of the same form is not, because files may
// discuss tokens.
func TestSecretFile_forms(t *testing.T) {
	t.Parallel()
	of := func(alphabet string, n int) string { return strings.Repeat(alphabet, n/len(alphabet)+1)[:n] }
	for prefix, form := range map[string]struct {
		alphabet string
		least    int // characters after the prefix
	}{
		"sk-":         {"aB3dE6", 32},
		"sk-proj-":    {"aB3dE6", 32},
		"sk-ant-":     {"aB3dE6", 32},
		"sk-or-v1-":   {"aB3dE6", 32},
		"sk_live_":    {"aB3dE6", 10},
		"gsk_":        {"aB3dE6", 40},
		"hf_":         {"aB3dE6", 30},
		"ghp_":        {"aB3dE6", 36},
		"gho_":        {"aB3dE6", 36},
		"ghs_":        {"aB3dE6", 36},
		"github_pat_": {"aB3dE6_", 60},
		"glpat-":      {"aB3dE6", 20},
		"AKIA":        {"Q3EGUZ7J", 16},
		"AIza":        {"aB3dE6", 35},
		"pypi-AgEI":   {"aB3dE6", 50},
		"npm_":        {"aB3dE6", 36},
	} {
		whole := prefix + of(form.alphabet, form.least)
		for _, text := range []string{whole, "key: " + whole + "\n", `"` + whole + `"`, "=" + whole, strings.Repeat("x ", 5000) + whole} {
			require.True(t, SecretFile("a", []byte(text)), "%s in %.40q", prefix, text)
		}
		short := whole[:len(whole)-1]
		if prefix == "sk-proj-" || prefix == "sk-ant-" || prefix == "sk-or-v1-" {
			short = "sk-" + of(form.alphabet, 31)
		}
		require.False(t, SecretFile("a", []byte(short+" ")), "%q is too short", short)
	}
	require.False(t, SecretFile("a", []byte("AKIA"+of("Q3EGUZ7J", 17))), "an access key has a length")
	require.False(t, SecretFile("a", []byte("wordsk-"+of("aB3dE6", 32))), "within a word")
	for _, text := range []string{"xoxb-12345678-" + of("aB3dE6", 20), "xoxp-12345678-" + of("aB3dE6", 20)} {
		require.True(t, SecretFile("a", []byte(text)), text)
	}
	for _, text := range []string{"xoxb-1234567-" + of("aB3dE6", 20), "xoxb-12345678-short", ""} {
		require.False(t, SecretFile("a", []byte(text)), text)
	}
}

// A repeated character indicates a placeholder.
func TestSecretFile_placeholders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ghp_" + strings.Repeat("x", 36):                                          false,
		"hf_" + strings.Repeat("0", 40):                                           false,
		"ghp_xxxxxxxxxxxxxabc" + strings.Repeat("x", 20):                          false,
		"ghp_xxxxxxxxabcdef01" + strings.Repeat("x0a9", 5):                        true,
		"sk-" + strings.Repeat("-", 40):                                           false,
		"npm_" + strings.Repeat("x", 36) + "\nnpm_" + strings.Repeat("aB3dE6", 6): true,
	} {
		require.Equal(t, want, SecretFile("a", []byte(text)), text)
	}
}

func TestSecretFile_names(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".env": true, ".env.local": true, "a/b/.env": true, ".env.example": false, ".env.sample": false, ".env.template": false, ".env.dist": false, ".env.default": false, ".env.defaults": false, ".env.md": false,
		".netrc": true, "_netrc": true, ".pgpass": true, ".pypirc": true, ".git-credentials": true, ".htpasswd": true,
		"id_rsa": true, "id_dsa": true, "id_ecdsa": true, "id_ed25519": true, "id_rsa.pub": false, "my_id_rsa": false,
		"a.p12": true, "a.pfx": true, "a.jks": true, "a.keystore": true, ".p12": false, "keystore": false,
		"env": false, "environment.go": false, "x.env": true, "": false,
	} {
		require.Equal(t, want, SecretFile(name, nil), name)
	}
}

func TestSecretVariable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"OPENAI_API_KEY": true, "GITHUB_TOKEN": true, "TEMPORAL_TLS_KEY_DATA": true, "DB_PASSWORD": true, "CLIENT_SECRET": true, "KEY": true, "token": true, "aws_secret_access_key": true,
		"KEYBOARD": false, "MONKEY": false, "TOKENS": false, "PATH": false, "": false, "SECRET_NAME": false,
	} {
		require.Equal(t, want, SecretVariable(name), name)
	}
	require.Equal(t, []string{"12345678"}, SecretsOfEnvironment([]string{"A_KEY=12345678", "B_KEY=1234567", "C_KEY", "D=12345678"}))
}

func TestLooksSecret_forms(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"sk-abcdef", "sk_abcdef", "gsk_0123456789", "hf_0123456789", "r8_0123456789", "gho_0123456789", "ghs_0123456789", "ghu_0123456789", "github_pat_0123456789",
		"xai-01234567890123456789", "pplx-01234567890123456789", "nvapi-01234567890123456789", "glpat-01234567890123456789", "xoxb-0123456789",
		"bearer abc", "Basic abc", "BEARER  abc", "ASIA0123456789AB", "AIza01234567890123456789", "eyJ0123456789", "x -----BEGIN RSA PRIVATE KEY-----",
	} {
		require.True(t, LooksSecret(value), value)
		require.True(t, LooksSecret("\t"+value+"\n"), value)
	}
	for _, value := range []string{"sk-abcde", "gsk_012345678", "xai-0123456789012345678", "xoxb-012345678", "bearer", "basically", "AKIA0123456789A", "AIza0123456789012345678", "eyJ012345678", "hf-0123456789", "a sk-abcdef", "BEGIN"} {
		require.False(t, LooksSecret(value), value)
	}
}

func TestUserinfo_forms(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][]string{
		"https://ada@example.org/":              {"ada", "", "ada:", "YWRhOg==", "ada", "ada", ""},
		"https://:secret@example.org":           {"", "secret", ":secret", "OnNlY3JldA==", ":secret", "", "secret"},
		"postgres://u:p@db:5432/x?sslmode=none": {"u", "p", "u:p", "dTpw", "u:p", "u", "p"},
		"https://u:p%3Aq@example.org#x":         {"u", "p:q", "u:p:q", "dTpwOnE=", "u:p%3Aq", "u", "p%3Aq"},
		"mailto:ada@example.org":                nil,
		"https://example.org/@ada":              nil,
		"://":                                   nil,
		"":                                      nil,
	} {
		require.Equal(t, want, UserinfoOf(address), address)
	}
}

// Documents within documents are redacted, including their keys and numbers.
func TestJSON_table(t *testing.T) {
	t.Parallel()
	clean := func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "4711", "[x]")) }
	for document, want := range map[string]string{
		`{"a":"4711"}`:                    `{"a":"[x]"}`,
		`{"4711":1}`:                      `{"4711":1}`,
		`{"a":4711}`:                      `{"a":4711}`,
		`["4711",4711,"b"]`:               `["[x]",4711,"b"]`,
		`"4711"`:                          `"[x]"`,
		`{"a":"{\"4711\":\"4711\"}"}`:     `{"a":"{\"[x]\":\"[x]\"}"}`,
		`{"a":"[4711]"}`:                  `{"a":"[[x]]"}`,
		`{"a":"\u0034711"}`:               `{"a":"[x]"}`,
		`{"a" : "b\"4711" , "4711" :"c"}`: `{"a" : "b\"[x]" , "4711" :"c"}`,
		`{}`:                              `{}`,
		``:                                ``,
		`{"a":"none"}`:                    `{"a":"none"}`,
	} {
		got, err := RedactJSON([]byte(document), clean)
		require.NoError(t, err, document)
		require.Equal(t, want, string(got), document)
	}
}

package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		require.Equal(t, want, secretVariable(name), name)
	}
	require.Equal(t, []string{"12345678"}, Environment([]string{"A_KEY=12345678", "B_KEY=1234567", "C_KEY", "D=12345678"}))
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
		require.Equal(t, want, Userinfo(address), address)
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
		got, err := JSON([]byte(document), clean)
		require.NoError(t, err, document)
		require.Equal(t, want, string(got), document)
	}
}

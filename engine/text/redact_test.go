package text_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/text"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	r := text.NewRedactor(text.SecretsOfEnvironment([]string{
		"OPENAI_API_KEY=sk-0123456789", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SESSION_TOKEN=session-token-value",
		"SHORT_KEY=abc", "EMPTY_TOKEN=", "HOME=/home/somebody", "odd",
	}))
	require.Equal(t, "a [redacted] b [redacted] [redacted] abc /home/somebody",
		r.String("a sk-0123456789 b wJalrXUtnFEMI/K7MDENG session-token-value abc /home/somebody"))
	require.Nil(t, text.NewRedactor(text.SecretsOfEnvironment([]string{"HOME=/home/somebody"})))
}

// If a secret is a prefix of another, no rest of the longer one remains.
func TestNew_longestFirst(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{
		{"sk-abcdefgh", "sk-abcdefgh-LONGTAIL"},
		{"sk-abcdefgh-LONGTAIL", "sk-abcdefgh"},
	} {
		require.Equal(t, "[redacted] and [redacted]-SHORT", text.NewRedactor(secrets).String("sk-abcdefgh-LONGTAIL and sk-abcdefgh-SHORT"))
	}
}

func plainJSON(s string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func htmlJSON(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// The arguments of tools are JSON within JSON, and encoders escape different characters.
func TestNew_spellings(t *testing.T) {
	t.Parallel()
	const secret = `p"a\s<s>&w` + "\t/word"
	r := text.NewRedactor([]string{secret, "two words?"})
	for name, tt := range map[string]struct{ text, want string }{
		"as it is":             {secret, "[redacted]"},
		"once":                 {plainJSON(secret), `"[redacted]"`},
		"once, HTML":           {htmlJSON(secret), `"[redacted]"`},
		"twice":                {plainJSON(plainJSON(secret)), `"\"[redacted]\""`},
		"twice, HTML":          {htmlJSON(htmlJSON(secret)), `"\"[redacted]\""`},
		"twice, HTML outside":  {htmlJSON(plainJSON(secret)), `"\"[redacted]\""`},
		"twice, HTML inside":   {plainJSON(htmlJSON(secret)), `"\"[redacted]\""`},
		"something like it":    {plainJSON(`p"a\s<s>`), plainJSON(`p"a\s<s>`)},
		"beside other escapes": {plainJSON("\n" + secret + "\n"), `"\n[redacted]\n"`},
		"in a form":            {"a=two+words%3F&b", "a=[redacted]&b"},
		"in an address":        {"/x?a=two%20words%3F", "/x?a=[redacted]"},
	} {
		require.Equal(t, tt.want, string(r.Bytes([]byte(tt.text))), name)
	}
}

func TestRedactor_Error(t *testing.T) {
	t.Parallel()
	r := text.NewRedactor([]string{"sk-secret"})
	cause := errors.Join(errors.New("incorrect key sk-secret"), io.EOF)
	err := r.Error(cause)
	require.EqualError(t, err, "incorrect key [redacted]\nEOF")
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, errors.Unwrap(err))
	require.Same(t, io.EOF, r.Error(io.EOF))
	require.NoError(t, r.Error(nil))
	require.Same(t, cause, (*text.Redactor)(nil).Error(cause))
}

func TestVault(t *testing.T) {
	t.Parallel()
	v := text.NewVault("seed", []string{`hun"ter2`, "hun", "a b!"})
	hidden := v.Hide(`hun"ter2, hun and a+b%21`)
	require.NotContains(t, hidden, "hun")
	require.NotContains(t, hidden, "a+b")
	require.Equal(t, `hun"ter2, hun and a+b%21`, v.Restore(hidden), "an encoded secret comes back encoded")
	require.Equal(t, "[redacted], [redacted] and [redacted]", v.Redact(hidden))
	require.Equal(t, "[redacted]", v.Redact(`hun"ter2`))

	arguments := v.Hide(`{"password":` + plainJSON(`hun"ter2`) + `}`)
	require.NotContains(t, arguments, "hun")
	require.JSONEq(t, `{"password":"hun\"ter2"}`, v.RestoreJSON(arguments))

	require.NotEqual(t, v.Hide("hun"), text.NewVault("another seed", []string{"hun"}).Hide("hun"))
	require.Equal(t, v.Hide("hun"), text.NewVault("seed", []string{"a b!", "hun", `hun"ter2`}).Hide("hun"), "the order of secrets does not matter")
	var none *text.Vault
	require.Nil(t, text.NewVault("seed", nil))
	for _, keep := range []func(string) string{none.Hide, none.Restore, none.RestoreJSON, none.Redact} {
		require.Equal(t, "hun", keep("hun"))
	}
}

// Redacting any secret preserves the structure of a document.
func TestJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-z"\\{}:,<]{4,8}`).Draw(t, "secret")
		nested := htmlJSON("x " + secret)
		document := `{"role":` + htmlJSON("it is "+secret+"!") + `,"n":12, "arguments" : ` + htmlJSON(`{"`+"k"+`":`+nested+`}`) + `}`
		clean, err := text.RedactJSON([]byte(document), text.NewRedactor([]string{secret}).Bytes)
		require.NoError(t, err)
		var got struct {
			Role      string
			N         int
			Arguments string
		}
		require.NoError(t, json.Unmarshal(clean, &got))
		require.Equal(t, 12, got.N)
		require.Equal(t, "it is [redacted]!", got.Role)
		require.JSONEq(t, `{"k":"x [redacted]"}`, got.Arguments)
	})
	_, err := text.RedactJSON([]byte(`"\q"`), func(b []byte) []byte { return b })
	require.ErrorContains(t, err, "redact a string")
}

func TestLooksSecret(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"sk-123456", " ghp_0123456789 ", "Bearer x", "AKIA0123456789AB", "-----BEGIN PRIVATE KEY"} {
		require.True(t, text.LooksSecret(value), value)
	}
	for _, value := range []string{"", "skate", "gpt-5.2", "bearer"} {
		require.False(t, text.LooksSecret(value), value)
	}
}

func TestUserinfo(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a@b.org", "p@ss!", "a@b.org:p@ss!", "YUBiLm9yZzpwQHNzIQ==", "a%40b.org:p%40ss!", "a%40b.org", "p%40ss!"}, text.UserinfoOf("https://a%40b.org:p%40ss!@example.org/x"))
	require.Empty(t, text.UserinfoOf("https://example.org/?a=b@c"))
	require.Empty(t, text.UserinfoOf("hunter2"))
}

func TestSecretKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"api_key", "X-API-Key", "Authorization", "key", "openai_api_key", "clientSecret"} {
		require.True(t, text.SecretKey(key), key)
	}
	for _, key := range []string{"", "keys", "monkey", "max_tokens"} {
		require.False(t, text.SecretKey(key), key)
	}
}

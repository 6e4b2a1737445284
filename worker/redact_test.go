package worker

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	take := redact([]string{
		"OPENAI_API_KEY=sk-0123456789", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SESSION_TOKEN=session-token-value",
		"SHORT_KEY=abc", "EMPTY_TOKEN=", "HOME=/home/somebody", "odd",
	})
	require.Equal(t, "a [redacted] b [redacted] [redacted] abc /home/somebody",
		string(take([]byte("a sk-0123456789 b wJalrXUtnFEMI/K7MDENG session-token-value abc /home/somebody"))))
}

// Contract, section 4: keys never appear in an artifact. A secret that begins
// with another one leaves no tail.
func TestRedactTheLongestSecret(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{
		{"A_KEY=sk-abcdefgh", "B_KEY=sk-abcdefgh-LONGTAIL"},
		{"B_KEY=sk-abcdefgh-LONGTAIL", "A_KEY=sk-abcdefgh"},
	} {
		require.Equal(t, "[redacted] and [redacted]-SHORT", string(redact(environ)([]byte("sk-abcdefgh-LONGTAIL and sk-abcdefgh-SHORT"))))
	}
}

// Arguments of tools are JSON within JSON, and encoders differ in what they
// escape.
func TestRedactWhatJSONEscapes(t *testing.T) {
	t.Parallel()
	const secret = `p"a\s<s>&w` + "\t/word"
	plain := func(text string) string {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(text))
		return strings.TrimSuffix(b.String(), "\n")
	}
	html := func(text string) string {
		data, err := json.Marshal(text)
		require.NoError(t, err)
		return string(data)
	}
	take := redact([]string{"DB_PASSWORD=" + secret})
	for name, tt := range map[string]struct{ text, want string }{
		"as it is":             {secret, "[redacted]"},
		"once":                 {plain(secret), `"[redacted]"`},
		"once, HTML":           {html(secret), `"[redacted]"`},
		"twice":                {plain(plain(secret)), `"\"[redacted]\""`},
		"twice, HTML":          {html(html(secret)), `"\"[redacted]\""`},
		"twice, HTML outside":  {html(plain(secret)), `"\"[redacted]\""`},
		"twice, HTML inside":   {plain(html(secret)), `"\"[redacted]\""`},
		"something like it":    {plain(`p"a\s<s>`), plain(`p"a\s<s>`)},
		"beside other escapes": {plain("\n" + secret + "\n"), `"\n[redacted]\n"`},
	} {
		require.Equal(t, tt.want, string(take([]byte(tt.text))), name)
	}
}

package attempt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func TestLastWords(t *testing.T) {
	t.Parallel()
	redact := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("sk-secret"), []byte("***")) }
	for name, c := range map[string]struct{ reply, want string }{
		"nothing":                   {"", ""},
		"the first word":            {"Us", ""},
		"whole words":               {"Use SQLite beca", "Use SQLite "},
		"a secret":                  {"The key is sk-secret now", "The key is *** "},
		"the beginning of a secret": {"The key is sk-se", "The key is "},
		"control characters":        {"a\x1b[31mb c", "ab "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, lastWords(c.reply, redact))
		})
	}
	long := lastWords(strings.Repeat("ä ", maxSaid), nil)
	require.LessOrEqual(t, len(long), maxSaid)
	require.True(t, strings.HasSuffix(long, "ä "))
}

// Heartbeats carry the reply while the model's call is under way, and no longer.
func TestAttempt_heard(t *testing.T) {
	t.Parallel()
	a := &Attempt{heart: newHeart(nil, HeartbeatTimeout, details{})}
	a.noteHeard("too early ")
	require.Empty(t, a.heart.currentDetails().Said)
	over := a.heart.beginCall(coordination.CallsModel, "model call 1")
	a.noteHeard("Use SQLite beca")
	require.Equal(t, "Use SQLite ", a.heart.currentDetails().Said)
	over()
	require.Empty(t, a.heart.currentDetails().Said)
	a.noteHeard("too late ")
	require.Empty(t, a.heart.currentDetails().Said)
}

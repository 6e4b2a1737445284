package worker

import (
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

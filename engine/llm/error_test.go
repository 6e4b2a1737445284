package llm_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestError_Retryable(t *testing.T) {
	t.Parallel()
	for kind, want := range map[llm.Kind]bool{
		llm.AuthFailed:     false,
		llm.BadRequest:     false,
		llm.ContextTooLong: false,
		llm.ContentPolicy:  false,
		llm.RateLimited:    true,
		llm.Overloaded:     true,
		llm.Network:        true,
		llm.BadReply:       true,
		"":                 false,
	} {
		require.Equal(t, want, (&llm.Error{Kind: kind}).Retryable(), "kind %q", kind)
	}
}

func TestError_wrapped(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("step 3: %w", &llm.Error{Kind: llm.Network, Message: "cut off", Err: io.ErrUnexpectedEOF})

	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, llm.Network, e.Kind)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "step 3: cut off", err.Error())
}

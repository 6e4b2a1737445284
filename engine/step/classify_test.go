package step

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want Class
	}{
		{&llm.Error{Kind: llm.AuthFailed}, Class{Type: "AuthFailed", Final: true}},
		{&llm.Error{Kind: llm.RateLimited, RetryAfter: time.Minute}, Class{Type: "RateLimited", Free: true, After: time.Minute}},
		{&llm.Error{Kind: llm.Overloaded}, Class{Type: "Overloaded"}},
		{&loop.NoActionError{Attempts: 3}, Class{Type: "NoAction", Final: true}},
		{&loop.NoActionError{Calls: 200}, Class{Type: "NoAction", Final: true}},
		{&loop.TimeOverError{Denials: 10}, Class{Type: "TimeOver", Final: true}},
		{&artifact.LimitError{What: "files"}, Class{Type: "WorkspaceInvalid", Final: true}},
		{&artifact.NameError{What: "path"}, Class{Type: "WorkspaceInvalid", Final: true}},
		{errOvertaken, Class{Type: "Fenced", Free: true}},
		{&UnwrittenError{Number: 3}, Class{Type: "Storage", Free: true}},
	} {
		class, ok := Classify(fmt.Errorf("running the step: %w", tt.err))
		require.True(t, ok, "%T", tt.err)
		require.Equal(t, tt.want, class)
	}
	_, ok := Classify(errors.New("disk full"))
	require.False(t, ok)
}

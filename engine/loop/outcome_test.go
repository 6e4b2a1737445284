package loop

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// failing is a set of tools, one of which fails with an exit code.
type failing struct{ ran []string }

func (*failing) Tools() []llm.Tool { return nil }

func (f *failing) Run(_ context.Context, call llm.ToolCall) (Output, error) {
	f.ran = append(f.ran, call.ID)
	code := len(f.ran) - 1
	return Output{Text: call.Name, Failed: code > 0, ExitCode: &code}, nil
}

// With StopAtFailure the calls after a failed one are skipped.
func TestRunOrdinary_stopsAtFailure(t *testing.T) {
	t.Parallel()
	calls := []llm.ToolCall{{ID: "a"}, {ID: "own"}, {ID: "b"}, {ID: "c"}}
	own := map[string]string{"own": "answered by the rules"}
	for stop, ran := range map[bool][]string{true: {"a", "b"}, false: {"a", "b", "c"}} {
		tools := &failing{}
		r := running{Loop: Loop{Tools: tools}, conv: &Conversation{}}
		outputs, _, err := r.runOrdinary(t.Context(), calls, Ruling{Results: own, StopAtFailure: stop})
		require.NoError(t, err)
		require.Equal(t, ran, tools.ran)
		require.Equal(t, stop, outputs["c"].Text == notCalled)
		ended := callOutcomes(calls, outputs)
		require.Len(t, ended, len(ran))
		require.Equal(t, "b", ended[1].Call)
		require.True(t, ended[1].Failed)
		require.Equal(t, 1, *ended[1].ExitCode)
	}
}

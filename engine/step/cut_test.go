package step_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// timeIsUp is the cause of a deadline.
type timeIsUp struct{}

func (timeIsUp) Error() string { return "the time is up" }

func (timeIsUp) Is(target error) bool { return target == context.DeadlineExceeded }

// cutBatch runs a step that is ended for the cause in the second call of a batch, when the first one
// has written a file, and the second one another.
func cutBatch(b *bench, cause error) (step.Ports, step.Result) {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	batch := call("write_file", map[string]string{"path": "done", "content": "x"})
	second := call("list_files", nil).ToolCalls[0]
	second.ID = "d"
	batch.ToolCalls = append(batch.ToolCalls, second)
	ports, ran := b.ports(writeCall("before", "x"), batch), 0
	b.open = func(ctx context.Context, dir string) (step.Tools, error) {
		opened, err := tools.Open(ctx, dir, tools.Set{Files: true})
		return looking{opened, func() {
			if ran++; ran == 3 {
				require.NoError(b.t, os.WriteFile(filepath.Join(dir, "half"), []byte("x"), 0o600))
				cancel(cause)
			}
		}}, err
	}
	result, err := step.Run(ctx, ports, b.spec)
	require.ErrorIs(b.t, err, cause)
	b.open = nil
	return ports, result
}

// What a batch of calls has done when the step is cancelled, or its time is over, is kept: the results
// of the calls that have ended, and the files. The journal has neither, so that a step that goes on
// runs the batch again. An attempt that another one follows keeps nothing.
func TestRun_cutBatch(t *testing.T) {
	t.Parallel()
	for cause, kept := range map[error]bool{context.Canceled: true, timeIsUp{}: true, errors.New("the worker stops"): false} {
		t.Run(fmt.Sprint(cause), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, &rules{})
			ports, result := cutBatch(b, cause)
			require.NoError(t, step.Leave(t.Context(), ports, b.spec, result))
			files, err := artifact.ReadJSON[artifact.Manifest](t.Context(), b.store, b.spec.Dir(1)+"partial.json")
			require.NoError(t, err)
			var names []string
			for _, f := range files.Files {
				names = append(names, f.Path)
			}
			left, err := b.transcript(1)
			require.NoError(t, err)
			last := left.Lines[len(left.Lines)-1]
			if kept {
				require.Equal(t, []string{"before", "done", "half"}, names)
				require.Equal(t, loop.Results, last.Kind)
				require.Len(t, last.Messages, 1, "of the call that has ended")
				require.Equal(t, llm.ToolRole, last.Messages[0].Role)
				require.Equal(t, "c", last.Messages[0].ToolCallID)
				require.Contains(t, last.Messages[0].Content, "done")
			} else {
				require.Equal(t, []string{"before"}, names)
				require.Equal(t, loop.Reply, last.Kind)
			}

			r := b.again()
			result, err = b.run(done("Two."))
			require.NoError(t, err)
			require.Equal(t, []string{"before", "done"}, manifest(t, b, result), "the batch ran again")
			require.Len(t, results(r.learned), 3)
		})
	}
}

// A reckoning after a cancellation keeps what the attempt itself has kept.
func TestRun_cutBatchReckoned(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports, result := cutBatch(b, context.Canceled)
	require.NoError(t, step.Leave(t.Context(), ports, b.spec, result))
	r, err := step.Recover(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, string(result.Transcript), string(r.Transcript))
	require.Len(t, r.Partial.Changed, 3)
}

package step_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// fencedIn is a tool during which the step is fenced off, and which nevertheless returns a result.
type fencedIn struct {
	opened step.Tools
	fall   func()
}

func (f fencedIn) Tools() []llm.Tool { return f.opened.Tools() }
func (f fencedIn) Close() error      { return f.opened.Close() }

func (f fencedIn) Run(ctx context.Context, _ llm.ToolCall) (loop.Output, error) {
	f.fall()
	<-ctx.Done()
	return loop.Output{Text: "killed"}, nil
}

// A tool that is interrupted because another attempt may be running has no result, and the next
// attempt repeats its call. The reply before it is not paid for again.
func TestRun_fenceEndsTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports()
	model := &worked{}
	ports.Model = model
	lost := errors.New("another attempt may run")
	var fall atomic.Pointer[context.CancelCauseFunc]
	leaseOf(&ports).fence = func(ctx context.Context) (context.Context, context.CancelFunc) {
		fenced, cancel := context.WithCancelCause(ctx)
		fall.Store(&cancel)
		return fenced, func() { cancel(nil) }
	}
	open := ports.Tools
	ports.Tools = step.OpenFunc(func(ctx context.Context, workspace string) (step.Tools, error) {
		opened, err := open.OpenTools(ctx, workspace)
		return fencedIn{opened: opened, fall: func() { (*fall.Load())(lost) }}, err
	})
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, lost)
	require.EqualValues(t, 1, model.calls.Load())

	ports.Tools, ports.Lease = open, nil
	b.spec.Attempt.Number = 2
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.EqualValues(t, workedCalls, model.calls.Load(), "the first reply is kept")
	require.EqualValues(t, workedCalls, result.Usage.ModelCalls)
}

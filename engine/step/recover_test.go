package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// suspend runs the step until its model was called three times.
func suspend(t *testing.T, b *bench) (step.Ports, *worked) {
	t.Helper()
	model := &worked{}
	ports := b.ports()
	stop := errors.New("suspended")
	ports.Model = model
	leaseOf(&ports).alive = failing(stop, func() bool { return model.calls.Load() == 3 })
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, stop)
	ports.Lease = nil
	return ports, model
}

// resume turns the bench's spec into a launch that resumes the step with the token from, and
// returns the rules of that launch.
func resume(b *bench, token, from string, after int, uncounted bool) *rules {
	r := &rules{}
	b.spec.Token, b.spec.After = token, after
	b.spec.Attempt = step.Attempt{ResumeFrom: from, Uncounted: uncounted}
	b.spec.Open = func(step.Access) (loop.Rules, []llm.Message, error) {
		return r, []llm.Message{{Role: llm.User, Content: "another opening"}}, nil
	}
	return r
}

func TestRecover(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	_, err := step.Recover(t.Context(), b.ports(), b.spec)
	require.ErrorIs(t, err, artifact.ErrNotFound, "nothing was claimed")
	ports, _ := suspend(t, b)

	r, err := step.Recover(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, 1, r.Step)
	require.False(t, r.StartedAt.IsZero())
	require.EqualValues(t, 3, r.Usage.ModelCalls, "those in the journal")
	require.Contains(t, string(r.Transcript), "How many moons has Mars?")

	resume(b, "run-l2", "run-l1", 1, false)
	done, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	r, err = step.Recover(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.Equal(t, done.Usage, r.Usage, "of its commit")
	require.Empty(t, r.Transcript)
}

// "A step that goes on reports the usage of the journal it took over only if nobody has."
func TestResumeFrom_unreportedUsage(t *testing.T) {
	t.Parallel()
	for uncounted, want := range map[bool]int64{false: workedCalls - 3, true: workedCalls} {
		b := newBench(t, &rules{})
		ports, _ := suspend(t, b)
		resume(b, "run-l2", "run-l1", 1, uncounted)
		result, err := step.Run(t.Context(), ports, b.spec)
		require.NoError(t, err)
		require.Equal(t, want, result.Usage.ModelCalls)
	}
}

// If a resumed step is immediately suspended again, it passes on the usage of the first one, and
// neither of the two resumed steps counts that usage twice.
func TestResumeFrom_unreportedTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		first, second bool
		want          int64
	}{
		{true, true, workedCalls},       // nobody has counted the first
		{false, true, workedCalls - 3},  // the first is counted, the second made no call
		{true, false, workedCalls - 3},  // the second has counted both
		{false, false, workedCalls - 3}, // each has counted itself
	} {
		b := newBench(t, &rules{})
		ports, _ := suspend(t, b)
		resume(b, "run-l2", "run-l1", 1, tt.first)
		stop := errors.New("suspended again")
		leaseOf(&ports).alive = func() error { return stop }
		_, err := step.Run(t.Context(), ports, b.spec)
		require.ErrorIs(t, err, stop)
		ports.Lease = nil
		resume(b, "run-l3", "run-l2", 2, tt.second)
		result, err := step.Run(t.Context(), ports, b.spec)
		require.NoError(t, err)
		require.Equal(t, 3, result.Step)
		require.Equal(t, tt.want, result.Usage.ModelCalls)
	}
}

// A step that is suspended before it has a journal does not replace the one that it resumes.
func TestResumeFrom_stepWithoutJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports, model := suspend(t, b)
	resume(b, "run-l2", "run-l1", 1, false)
	broken, open := errors.New("no browser"), ports.Tools
	ports.Tools = step.OpenFunc(func(context.Context, string) (step.Tools, error) { return nil, broken })
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, broken)

	ports.Tools = open
	resume(b, "run-l3", "run-l2", 2, true)
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.EqualValues(t, workedCalls, model.calls.Load(), "nothing is done twice")
	require.EqualValues(t, workedCalls-3, result.Usage.ModelCalls, "the first step has counted its own")
}

// unanswered is a store that creates journal entries but reports an error.
type unanswered struct{ artifact.Store }

func (u unanswered) Create(ctx context.Context, key string, body []byte) error {
	if err := u.Store.Create(ctx, key, body); err != nil || !strings.HasPrefix(key, "journal/") {
		return err
	}
	return context.Canceled
}

// If a step is interrupted while it writes a reply whose usage was reported, its transcript
// contains the reply.
func TestRun_cutShortWhileItWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	b.store = unanswered{b.store}
	ports := b.ports()
	ports.Model = &worked{}
	result, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, result.Usage.ModelCalls)
	require.NoError(t, step.Leave(t.Context(), ports, b.spec, result))
	left, err := b.transcript(1)
	require.NoError(t, err)
	require.Equal(t, result.Usage, left.Usage())
}

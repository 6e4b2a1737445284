package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows"
)

// diary is a history of numbers. Its record writes those that are not on record.
type diary struct {
	entries, written int
	records          []int // the first entry of each record that was begun
	failures         int   // of the next records
}

func (d *diary) StartRecord(ctx workflow.Context) workflow.Future {
	d.records = append(d.records, d.written)
	future, set := workflow.NewFuture(ctx)
	until, fails := d.entries, d.failures > 0
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := workflow.Sleep(ctx, time.Second)
		if fails {
			d.failures--
			err = errors.New("the store is unavailable")
		}
		set.Set(until, err)
	})
	return future
}

func (d *diary) Recorded(ctx workflow.Context, written workflow.Future) error {
	return written.Get(ctx, &d.written)
}

func run(t *testing.T, flow func(ctx workflow.Context) error) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.ExecuteWorkflow(flow)
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// One record is written at a time. The last flush writes the entries added in the meantime.
func TestRecorder(t *testing.T) {
	t.Parallel()
	d := &diary{entries: 2}
	require.NoError(t, run(t, func(ctx workflow.Context) error {
		var r workflows.Recorder
		require.False(t, r.Writing())
		r.Write(ctx, d)
		require.True(t, r.Writing())
		d.entries = 5
		selector := workflow.NewSelector(ctx)
		r.Select(ctx, selector, d)
		selector.Select(ctx)
		require.False(t, r.Writing())
		require.Equal(t, 2, d.written, "the entries at its beginning")
		r.Write(ctx, d)
		d.entries = 6
		return r.Flush(ctx, d)
	}))
	require.Equal(t, 6, d.written)
	require.Equal(t, []int{0, 2, 5}, d.records)
}

// A record that failed is repeated by the next one; an error of the last one is returned.
func TestRecorder_failures(t *testing.T) {
	t.Parallel()
	d := &diary{entries: 2, failures: 1}
	require.NoError(t, run(t, func(ctx workflow.Context) error {
		var r workflows.Recorder
		r.Write(ctx, d)
		return r.Flush(ctx, d)
	}))
	require.Equal(t, []int{0, 0}, d.records)
	require.Equal(t, 2, d.written)

	d = &diary{entries: 2, failures: 1}
	require.ErrorContains(t, run(t, func(ctx workflow.Context) error {
		var r workflows.Recorder
		return r.Flush(ctx, d)
	}), "the store is unavailable")
}

// An update is answered once a record that began after it is written. A failed one does not count, and
// the last one has them all.
func TestRecorder_Keep(t *testing.T) {
	t.Parallel()
	d := &diary{failures: 1}
	var answered []string
	require.NoError(t, run(t, func(ctx workflow.Context) error {
		var r workflows.Recorder
		update := func(name string) {
			workflow.Go(ctx, func(ctx workflow.Context) {
				r.Keep(ctx)
				answered = append(answered, name)
			})
			require.NoError(t, workflow.Sleep(ctx, time.Millisecond))
		}
		record := func() {
			r.Write(ctx, d)
			require.False(t, r.Due())
			selector := workflow.NewSelector(ctx)
			r.Select(ctx, selector, d)
			selector.Select(ctx)
		}
		require.False(t, r.Due())
		update("first")
		require.True(t, r.Due())
		record()
		require.False(t, r.Due(), "it is not repeated at once")
		r.Write(ctx, d)
		update("second")
		require.Empty(t, answered)
		return r.Flush(ctx, d)
	}))
	require.Equal(t, []string{"first", "second"}, answered)
}

// A record that was begun outlives the cancellation of its run.
func TestRecorder_outlivesCancellation(t *testing.T) {
	t.Parallel()
	d := &diary{entries: 3}
	require.NoError(t, run(t, func(ctx workflow.Context) error {
		cancelled, cancel := workflow.WithCancel(ctx)
		var r workflows.Recorder
		r.Write(cancelled, d)
		cancel()
		selector := workflow.NewSelector(ctx)
		r.Select(ctx, selector, d)
		selector.Select(ctx)
		return nil
	}))
	require.Equal(t, 3, d.written)
}

// The last records of a cancelled run have two minutes.
func TestFlushInTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes time.Duration
		want  time.Duration
	}{
		"in time": {30 * time.Second, 30 * time.Second},
		"late":    {time.Hour, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, run(t, func(ctx workflow.Context) error {
				began := workflow.Now(ctx)
				workflows.FlushInTime(ctx, func(ctx workflow.Context) error {
					_ = workflow.Sleep(ctx, tt.takes)
					return errors.New("is logged")
				})
				require.Equal(t, tt.want, workflow.Now(ctx).Sub(began))
				return nil
			}))
		})
	}
}

// ending is a step that ends after a time; zero means that it does not end.
func ending(ctx workflow.Context, after time.Duration) workflow.Future {
	if after == 0 {
		future, _ := workflow.NewFuture(ctx)
		return future
	}
	return workflow.NewTimer(ctx, after)
}

// Cancelled steps have ten seconds to report their ends, and the reckoning of the others
// twenty.
func TestAwaitCancelled(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps   []time.Duration
		reckons time.Duration // of the reckoning that lost starts; 0 for none
		want    time.Duration
		lost    bool
	}{
		"no steps":                 {nil, 0, 0, false},
		"all report":               {[]time.Duration{time.Second, 4 * time.Second}, 0, 4 * time.Second, false},
		"one does not":             {[]time.Duration{time.Second, 0}, 0, 10 * time.Second, true},
		"its reckoning ends":       {[]time.Duration{0}, 5 * time.Second, 15 * time.Second, true},
		"its reckoning takes long": {[]time.Duration{0}, time.Hour, 30 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, run(t, func(ctx workflow.Context) error {
				began := workflow.Now(ctx)
				var running []workflow.Future
				for _, after := range tt.steps {
					running = append(running, ending(ctx, after))
				}
				add := func(selector workflow.Selector) bool {
					for i, f := range running {
						selector.AddFuture(f, func(workflow.Future) { running = append(running[:i:i], running[i+1:]...) })
					}
					return len(running) > 0
				}
				lost := false
				workflows.AwaitCancelled(ctx, add, func() bool {
					lost = true
					if tt.reckons > 0 {
						running = []workflow.Future{ending(ctx, tt.reckons)}
					}
					return tt.reckons > 0
				})
				require.Equal(t, tt.lost, lost)
				require.Equal(t, tt.want, workflow.Now(ctx).Sub(began))
				return nil
			}))
		})
	}
}

// The reckoning keeps the larger usage and step number, whether they were reported or found.
func TestReckoning(t *testing.T) {
	t.Parallel()
	reported := workflows.Failure{Failure: attempt.Failure{Step: 2, Token: "run0-l1", Usage: llm.Usage{ModelCalls: 4}}, Unreported: true}
	for name, tt := range map[string]struct {
		found attempt.Failure
		err   error
		want  attempt.Failure
	}{
		"found more":   {attempt.Failure{Step: 3, Token: "run0-l1", Usage: llm.Usage{ModelCalls: 5}}, nil, attempt.Failure{Step: 3, Token: "run0-l1", Usage: llm.Usage{ModelCalls: 5}}},
		"found less":   {attempt.Failure{Token: "run0-l1", Usage: llm.Usage{ModelCalls: 3}}, nil, attempt.Failure{Step: 2, Token: "run0-l1", Usage: llm.Usage{ModelCalls: 4}}},
		"another run":  {attempt.Failure{Step: 2, Token: "run9-l1", Usage: llm.Usage{ModelCalls: 4}}, nil, attempt.Failure{Step: 2, Token: "run9-l1", Usage: llm.Usage{ModelCalls: 4}}},
		"not readable": {attempt.Failure{}, temporal.NewNonRetryableApplicationError("gone", "Gone", nil), reported.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterActivityWithOptions(func(context.Context, string) (attempt.Failure, error) { return tt.found, tt.err }, activity.RegisterOptions{Name: "reckon"})
			env.ExecuteWorkflow(func(ctx workflow.Context) (attempt.Failure, error) {
				cancelled, cancel := workflow.WithCancel(ctx)
				cancel() // the reckoning outlives the run
				r := workflows.Reckon(cancelled, reported, "a step", "reckon", "input")
				return r.End(ctx).Failure, nil
			})
			var got attempt.Failure
			require.NoError(t, env.GetWorkflowResult(&got))
			require.Equal(t, tt.want, got)
		})
	}
}

// A suspended step's record does not call it failed.
func TestFailure_Ended(t *testing.T) {
	t.Parallel()
	cause := coordination.Failure{Type: "AuthFailed", Message: "the key was refused"}
	failed := workflows.Failure{Failure: attempt.Failure{Token: "run0-l1"}, Cause: cause}
	require.Equal(t, attempt.Ended{Token: "run0-l1", Cause: cause}, failed.Ended(false, time.Time{}))
	suspended := workflows.Failure{Failure: attempt.Failure{Token: "run0-l1"}, Suspended: true, Cause: cause}
	require.Equal(t, attempt.Ended{Token: "run0-l1", Suspended: true, Cause: coordination.Failure{Type: "Cancelled", Message: "the step was cut short"}}, suspended.Ended(true, time.Time{}))
	require.False(t, suspended.Ended(false, time.Time{}).Suspended, "a step of an ended run does not go on")
}

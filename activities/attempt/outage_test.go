package attempt

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// waiting returns an attempt whose model's server has replied in this run, or has not.
func waiting(t *testing.T, replied bool) *Attempt {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	a := &Attempt{
		server: "local", heart: newHeart(NewSteps(), HeartbeatTimeout, details{}), outageLimit: 10 * time.Minute,
		process: Process{Server: &workertest.Worker{}, Store: store, Now: time.Now, Marks: &Marks{}},
		Spec:    step.Spec{Layout: artifact.InBucket("s1"), Dir: func(int) string { return "" }},
	}
	if replied {
		a.markReached(t.Context())
		a.replied = false // another attempt reads the mark
	}
	return a
}

// An outage ends the step only at the limit. The delays grow to a minute.
func TestAttempt_waitsOutAnOutage(t *testing.T) {
	t.Parallel()
	a := waiting(t, true)
	away := &llm.Error{Kind: llm.Network, Message: "connection refused", Since: time.Now()}
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
		c, outage := a.waitOut(t.Context(), classOf(away), away)
		require.Equal(t, coordination.NoOutage, outage)
		require.Equal(t, "Network", c.Type)
		require.True(t, c.Free && !c.Final)
		require.InDelta(t, want*time.Second, c.After, float64(want*time.Second/4))
	}
	a.heart.updateDetails(func(d *details) { d.Outage.Since = time.Now().Add(-11 * time.Minute) })
	c, outage := a.waitOut(t.Context(), classOf(away), away)
	require.Equal(t, coordination.Interrupted, outage)
	require.Equal(t, step.Class{Type: "Outage", Final: true}, c)

	a.outageLimit = 0
	_, outage = a.waitOut(t.Context(), classOf(away), away)
	require.Equal(t, coordination.NoOutage, outage, "a step without a limit waits on")
}

// modelError is a model that replies, or fails with an error.
type modelError struct{ err error }

func (m modelError) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{}, m.err
}

// Every reply ends an outage, even an error of another kind.
func TestAttempt_repliesEndAnOutage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		ends bool
	}{
		"a reply":           {nil, true},
		"a rate limit":      {&llm.Error{Kind: llm.RateLimited, Status: 429}, true},
		"an unusable reply": {&llm.Error{Kind: llm.BadReply, Status: 200}, true},
		"an overload":       {&llm.Error{Kind: llm.Overloaded, Status: 503}, false},
		"a broken reply":    {&llm.Error{Kind: llm.Network, Status: 200}, false},
		"no response":       {&llm.Error{Kind: llm.Network}, false},
		"an interruption":   {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, away := waiting(t, true), &llm.Error{Kind: llm.Network}
			a.waitOut(t.Context(), classOf(away), away)
			require.NotZero(t, a.Failure().AwaySince)
			_, _ = watched{modelError{tt.err}, a}.Generate(t.Context(), llm.Request{})
			require.Equal(t, tt.ends, a.Failure().AwaySince.IsZero())
		})
	}
	a, away := waiting(t, true), &llm.Error{Kind: llm.Network}
	a.waitOut(t.Context(), classOf(away), away)
	Responded(context.WithValue(t.Context(), heartKey{}, a.heart))
	require.Zero(t, a.Failure().AwaySince, "a reply before a retry of the call")
	Responded(t.Context())
}

// The next launch of a step knows since when the server has been away, on any worker, and
// probes it once. After a reply the clock begins again.
func TestAttempt_outageGoesOnInTheNextLaunch(t *testing.T) {
	t.Parallel()
	a, away := waiting(t, true), &llm.Error{Kind: llm.Network, Message: "connection refused", Since: time.Now()}
	now := time.Now()
	a.process.Now = func() time.Time { return now }
	since := now.Add(-11 * time.Minute)
	a.LimitOutages(10*time.Minute, since)
	in := context.WithValue(t.Context(), attemptKey{}, a)
	require.Zero(t, Patience(in, true))
	_, outage := a.waitOut(t.Context(), classOf(away), away)
	require.Equal(t, coordination.Interrupted, outage)
	require.Equal(t, since, a.Failure().AwaySince)
	a.Spec.Dir = nil
	require.EqualError(t, a.suspendInOutage(t.Context(), outage, away), "no usable reply for 11m0s: connection refused (type: Outage, retryable: false): no usable reply for 11m0s: connection refused")

	a.heart.endOutage()
	a.LimitOutages(10*time.Minute, since)
	require.Equal(t, time.Minute, Patience(in, true), "the server has replied to this launch")
	_, outage = a.waitOut(t.Context(), classOf(away), away)
	require.Equal(t, coordination.NoOutage, outage)
}

// The store has the beginning of an outage in which a step waits for its next attempt.
func TestAttempt_marksTheOutage(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 1, 8, 0, 0, 5, time.UTC)
	for name, tt := range map[string]struct {
		act   func(ctx context.Context, a *Attempt)
		calls int64 // that the journal has
		want  time.Time
	}{
		"no outage":                 {func(context.Context, *Attempt) {}, 2, time.Time{}},
		"an outage":                 {outageSince(began), 2, began},
		"a reply to a lost attempt": {outageSince(began), 3, time.Time{}},
		"an outage that ended": {func(ctx context.Context, a *Attempt) {
			outageSince(began)(ctx, a)
			a.heart.endOutage()
			a.markOutage(ctx)
		}, 2, time.Time{}},
		"a second outage": {func(ctx context.Context, a *Attempt) {
			outageSince(began)(ctx, a)
			a.heart.endOutage()
			outageSince(began.Add(time.Hour))(ctx, a)
		}, 2, began.Add(time.Hour)},
		"that of the launch": {func(ctx context.Context, a *Attempt) {
			a.LimitOutages(time.Minute, began.Add(-time.Hour))
			outageSince(began)(ctx, a)
		}, 2, began.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := waiting(t, true)
			a.Token, a.Spec.Token, a.Result.Usage.ModelCalls = "r-l1", "r-l1", 2
			tt.act(t.Context(), a)
			since, err := a.process.awaySince(t.Context(), a.Spec, tt.calls, began.Add(-2*time.Hour))
			require.NoError(t, err)
			require.Equal(t, tt.want, since)
		})
	}
	a := waiting(t, true)
	a.Token, a.Spec.Token = "r-l1", "r-l1"
	since, err := a.process.awaySince(t.Context(), a.Spec, 0, began)
	require.NoError(t, err)
	require.Equal(t, began, since, "the launch never came to a reply")
	a.Spec.Dir = nil
	outageSince(began)(t.Context(), a)
	require.Zero(t, a.heart.currentDetails().Marked, "a step that was never assembled")
}

// outageSince is an attempt that ends in an outage with a beginning.
func outageSince(began time.Time) func(context.Context, *Attempt) {
	return func(ctx context.Context, a *Attempt) {
		away := &llm.Error{Kind: llm.Network, Since: began}
		a.waitOut(ctx, classOf(away), away)
		a.markOutage(ctx)
	}
}

// A server that has never replied is not waited for, unless it responds that it cannot
// serve yet.
func TestAttempt_unreachedServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err     llm.Error
		replied bool
		want    coordination.Outage
	}{
		"never":             {llm.Error{Kind: llm.Network}, false, coordination.Unreached},
		"it replied before": {llm.Error{Kind: llm.Network}, true, coordination.NoOutage},
		"it is starting":    {llm.Error{Kind: llm.Overloaded, Status: 503}, false, coordination.NoOutage},
		"it is overcrowded": {llm.Error{Kind: llm.Overloaded, Status: 529}, true, coordination.NoOutage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, outage := waiting(t, tt.replied).waitOut(t.Context(), classOf(&tt.err), &tt.err)
			require.Equal(t, tt.want, outage)
		})
	}
}

// The mark of a server is written once by a process, and read by every other.
func TestMarks(t *testing.T) {
	t.Parallel()
	a := waiting(t, true)
	key, err := a.reachedKey()
	require.NoError(t, err)
	require.Equal(t, "sessions/s1/reached/local", key)
	require.False(t, a.process.Marks.addKey(key))
	a.process.Marks.removeKey(key)
	require.True(t, a.process.Marks.addKey(key))
	for n := range maxMarks {
		a.process.Marks.addKey(string(rune(n)))
	}
	require.LessOrEqual(t, len(a.process.Marks.keys), maxMarks)
	var none *Marks
	require.True(t, none.addKey(key))
	none.removeKey(key)
}

func TestServer(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]config.Backend{
		"":                {Type: config.Offline},
		"lab":             {Provider: "lab", BaseURL: "http://ignored/v1"},
		"127.0.0.1:11434": {BaseURL: "http://127.0.0.1:11434/v1"},
		"default":         {},
	} {
		require.Equal(t, want, serverOf(b))
	}
}

// A step retries a call no longer than it waits for outages, and briefly at a server that
// has never replied.
func TestPatience(t *testing.T) {
	t.Parallel()
	strange, known := waiting(t, false), waiting(t, true)
	in := func(a *Attempt) context.Context { return context.WithValue(t.Context(), attemptKey{}, a) }
	require.Equal(t, time.Minute, Patience(t.Context(), false))
	require.Equal(t, 5*time.Second, Patience(in(strange), false))
	require.Equal(t, time.Minute, Patience(in(strange), true))
	require.Equal(t, time.Minute, Patience(in(known), false))
	known.outageLimit = 20 * time.Second
	require.Equal(t, 20*time.Second, Patience(in(known), false))
}

// A suspended step has a last_action.json at once, unless that is its agent's.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]step.Spec{
		"of a pipeline": {},
		"of a session":  {Abandoned: func(artifact.LastAction) []step.Document { return []step.Document{{Key: "steps/001/last_action.json"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := waiting(t, true).process.Store
			spec.Dir = func(int) string { return "steps/001/" }
			ports := step.Ports{Store: store, Now: time.Now}
			require.NoError(t, recordSuspended(t.Context(), ports, spec, step.Result{Step: 1, Transcript: []byte("{}\n")}))
			there, err := store.Exists(t.Context(), "steps/001/transcript.jsonl")
			require.NoError(t, err)
			require.True(t, there)
			last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), store, "steps/001/last_action.json")
			if spec.Abandoned != nil {
				require.ErrorIs(t, err, artifact.ErrNotFound)
				return
			}
			require.NoError(t, err)
			require.Equal(t, activities.Suspended, last.Error.Type)
		})
	}
}

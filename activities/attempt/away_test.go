package attempt

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/workertest"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// reporter is an attempt whose reports are kept, by the second in which they were sent.
type reporter struct {
	*Attempt
	ctx     context.Context
	began   time.Time
	reports map[int]ModelReport
	refuse  int // number of signals to refuse
}

// startReports starts an attempt that reports outages after a minute.
func startReports(t *testing.T, longest float64, d details) *reporter {
	t.Helper()
	r := &reporter{Attempt: waiting(t, true), began: time.Now(), reports: map[int]ModelReport{}}
	r.heart = newHeart(NewSteps(), HeartbeatTimeout, d)
	r.ctx = context.WithValue(t.Context(), heartKey{}, r.heart)
	r.process.Server = &workertest.Worker{OnSignal: func(_ context.Context, workflowID, _, signal string, arg any) error {
		require.Equal(t, ModelSignal, signal)
		if r.refuse--; r.refuse >= 0 {
			return errors.New("unavailable")
		}
		r.reports[int(time.Since(r.began).Seconds())] = arg.(ModelReport)
		return nil
	}}
	r.ReportOutages(coordination.Launch{ID: "l3", LongestCall: longest}, time.Minute)
	go r.watchModel(r.ctx)
	return r
}

func (r *reporter) away(what string) func() {
	return Waiting(r.ctx, coordination.Doing{Kind: coordination.ModelAway, Since: time.Now(), What: what})
}

// A step reports an outage when it has lasted for away_seconds, and its end; it does not report rate
// limits and queues.
//
//nolint:funlen // one table
func TestAttempt_reportsOutages(t *testing.T) {
	t.Parallel()
	type moments map[int]bool // seconds of the reports; true: the model is out
	for name, tt := range map[string]struct {
		longest float64
		act     func(r *reporter)
		want    moments
	}{
		"a silent call": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			time.Sleep(150 * time.Second)
			Replying(r.ctx)
		}, moments{60: true, 150: false}},
		"a silent call beside longer ones": {40, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			time.Sleep(200 * time.Second)
		}, moments{160: true}},
		"a call that is long once it has begun": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			time.Sleep(59 * time.Second)
			Replying(r.ctx)
			time.Sleep(time.Hour)
		}, moments{}},
		"two silent calls": {0, func(r *reporter) {
			for range 2 {
				over := r.heart.beginCall(coordination.CallsModel, "model call")
				time.Sleep(59 * time.Second)
				over()
			}
		}, moments{}},
		"a tool": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.RunsTool, "run_command")()
			time.Sleep(time.Hour)
		}, moments{}},
		"a rate limit": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			over := Waiting(r.ctx, coordination.Doing{Kind: coordination.RateLimited})
			time.Sleep(time.Hour)
			over()
		}, moments{}},
		"a queue": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			over := Waiting(r.ctx, coordination.Doing{Kind: coordination.Queued})
			time.Sleep(time.Hour)
			over()
			time.Sleep(59 * time.Second)
		}, moments{}},
		"tries that fail": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			time.Sleep(30 * time.Second)
			for range 5 { // each is under way for half of the time
				over := r.away("boom")
				time.Sleep(10 * time.Second)
				over()
				time.Sleep(10 * time.Second)
			}
			Responded(r.ctx) // 429
		}, moments{90: true, 130: false}},
		"a silent try after a rate limit": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			Responded(r.ctx)
			over := Waiting(r.ctx, coordination.Doing{Kind: coordination.RateLimited})
			time.Sleep(time.Hour)
			over()
			time.Sleep(61 * time.Second)
		}, moments{3660: true}},
		"a try that succeeds": {0, func(r *reporter) {
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			over := r.away("boom")
			time.Sleep(50 * time.Second)
			over()
			Replying(r.ctx)
			time.Sleep(time.Hour)
		}, moments{}},
		"a server that does not take the report": {0, func(r *reporter) {
			r.refuse = 2
			defer r.heart.beginCall(coordination.CallsModel, "model call 1")()
			time.Sleep(150 * time.Second)
		}, moments{70: true}},
		"a hanging call that fails in the end": {0, func(r *reporter) {
			over := r.heart.beginCall(coordination.CallsModel, "model call 1")
			time.Sleep(10 * time.Minute)
			over()
			r.waitOut(r.ctx, classOf(&llm.Error{Kind: llm.Network}), &llm.Error{Kind: llm.Network, Status: 200})
		}, moments{60: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := startReports(t, tt.longest, details{})
				tt.act(r)
				synctest.Wait()
				sent := moments{}
				for second, report := range r.reports {
					require.EqualValues(t, "l3", report.Launch)
					sent[second] = report.Out != nil
				}
				require.Equal(t, tt.want, sent)
			})
		})
	}
}

// Only the silence of a call is compared with the longest call.
func TestAttempt_reportsTheSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := startReports(t, 0, details{})
		silent.heart.beginCall(coordination.CallsModel, "model call 1")
		failing := startReports(t, 0, details{})
		failing.heart.beginCall(coordination.CallsModel, "model call 1")
		failing.away("boom")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.InDelta(t, 60, silent.reports[60].Silent, 0.1)
		require.Equal(t, "nothing of a reply to model call 1", silent.reports[60].Out.What)
		require.Zero(t, failing.reports[60].Silent)
		require.Equal(t, "boom", failing.reports[60].Out.What)
	})
}

// An attempt that ends in an outage is followed in time for the report, and the next one reports the
// end of the outage.
func TestAttempt_reportsBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "boom", Since: time.Now()}
		r := startReports(t, 0, details{})
		time.Sleep(58 * time.Second)
		c, _ := r.waitOut(r.ctx, classOf(away), away)
		require.Equal(t, 2*time.Second, c.After)
		time.Sleep(2 * time.Second)
		r.waitOut(r.ctx, classOf(away), away)
		require.Equal(t, "boom", r.reports[60].Out.What)

		next := startReports(t, 0, r.heart.currentDetails())
		next.heart.beginCall(coordination.CallsModel, "model call 1")
		time.Sleep(10 * time.Second)
		next.heart.endOutage()
		synctest.Wait()
		require.Len(t, next.reports, 1)
		require.Nil(t, next.reports[10].Out)
	})
}

// A launch does not report the outage of the launch before it until a call of its own has failed.
func TestAttempt_reportsItsOwnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startReports(t, 0, details{})
		r.LimitOutages(time.Hour, time.Now().Add(-11*time.Minute))
		over := r.heart.beginCall(coordination.CallsModel, "model call 1")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, r.reports)
		over()
		r.waitOut(r.ctx, classOf(&llm.Error{Kind: llm.Overloaded, Status: 503}), &llm.Error{Kind: llm.Overloaded, Status: 503})
		require.Contains(t, r.reports, 1)
	})
}

// A step reports the longest of its calls that did not fail, without waits.
func TestAttempt_longestCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := waiting(t, true)
		ctx := context.WithValue(t.Context(), heartKey{}, a.heart)
		for _, seconds := range []time.Duration{3, 7, 5} {
			_, err := watched{slow{time.Minute, seconds * time.Second}, a}.Generate(ctx, llm.Request{})
			require.NoError(t, err)
		}
		_, err := watched{modelError{&llm.Error{Kind: llm.Network}}, a}.Generate(ctx, llm.Request{})
		require.Error(t, err)
		require.InDelta(t, 7, a.Failure().LongestCall, 0)
		a.ReportOutages(coordination.Launch{LongestCall: 30}, time.Minute)
		require.InDelta(t, 30, a.Failure().LongestCall, 0)
	})
}

// slow is a model whose calls wait in a queue and then take some time.
type slow struct{ queued, takes time.Duration }

func (s slow) Generate(ctx context.Context, _ llm.Request) (llm.Reply, error) {
	over := Waiting(ctx, coordination.Doing{Kind: coordination.Queued})
	time.Sleep(s.queued)
	over()
	time.Sleep(s.takes)
	return llm.Reply{}, nil
}

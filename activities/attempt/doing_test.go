package attempt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// seen calls look and returns what the details said while it ran.
type seen struct{ look func() }

func (s seen) Generate(context.Context, llm.Request) (llm.Reply, error) {
	s.look()
	return llm.Reply{}, nil
}

func (s seen) Tools() []llm.Tool { return nil }
func (s seen) Close() error      { return nil }

func (s seen) Run(context.Context, llm.ToolCall) (loop.Output, error) {
	s.look()
	return loop.Output{}, nil
}

// The details name the call that is under way, and nothing between calls.
func TestDoing_callsOfModelAndTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &Attempt{heart: newHeart(NewSteps(), testTimeout, details{}), replied: true}
		var all []coordination.Doing
		look := seen{func() {
			time.Sleep(time.Second)
			now := *a.heart.currentDetails().Doing
			require.Equal(t, time.Second, time.Since(now.Since))
			all = append(all, coordination.Doing{Kind: now.Kind, What: now.What})
		}}
		opens := step.OpenFunc(func(context.Context, string) (step.Tools, error) { look.look(); return look, nil })
		a.Ports.Tools = watchedToolbox{opens, a}
		opened, err := a.Ports.Tools.OpenTools(t.Context(), "")
		require.NoError(t, err)
		model := watched{look, a}
		for n := range 2 {
			_, err := model.Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
			require.Nil(t, a.heart.currentDetails().Doing)
			a.heart.updateDetails(func(d *details) { d.Usage.ModelCalls = int64(n + 1) })
			_, err = opened.Run(t.Context(), llm.ToolCall{Name: "run_command", Arguments: `{"command":"make\n  test"}`})
			require.NoError(t, err)
			require.Nil(t, a.heart.currentDetails().Doing)
		}
		require.Equal(t, []coordination.Doing{
			{Kind: coordination.RunsTool, What: "opening its tools"},
			{Kind: coordination.CallsModel, What: "model call 1"},
			{Kind: coordination.RunsTool, What: "run_command make test"},
			{Kind: coordination.CallsModel, What: "model call 2, after run_command make test"},
			{Kind: coordination.RunsTool, What: "run_command make test"},
		}, all)
	})
}

func TestDescribeCall(t *testing.T) {
	t.Parallel()
	redact := func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "[redacted]")) }
	for arguments, want := range map[string]string{
		`{"path":"a/b.go","content":"secret"}`:           "tool a/b.go",
		`{"text":"my password"}`:                         "tool",
		`{"command":"login hunter2"}`:                    "tool login [redacted]",
		`{"command":"a\u001b[31m\nb"}`:                   "tool a b",
		`{"command":7}`:                                  "tool",
		`nonsense`:                                       "tool",
		`{"path":"` + strings.Repeat("long/", 50) + `"}`: "tool " + strings.Repeat("long/", 18) + "lo…",
	} {
		require.Equal(t, want, describeCall(llm.ToolCall{Name: "tool", Arguments: arguments}, redact))
	}
	require.Equal(t, "tool hunter2", describeCall(llm.ToolCall{Name: "tool", Arguments: `{"path":"hunter2"}`}, nil))
}

// A wait interrupts a call. Consecutive waits of a kind begin with the first of them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(NewSteps(), testTimeout, details{})
		ctx := context.WithValue(t.Context(), heartKey{}, h)
		began := time.Now()
		over := h.beginCall(coordination.CallsModel, "model call 1")
		wait := func(kind coordination.DoingKind) func() {
			time.Sleep(time.Second)
			return Waiting(ctx, coordination.Doing{Kind: kind, Until: began.Add(time.Minute), What: "slow down"})
		}
		at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
		doing := func() coordination.Doing { return *h.currentDetails().Doing }

		wait(coordination.RateLimited)
		limited := coordination.Doing{Kind: coordination.RateLimited, Since: at(1), Until: at(60), What: "slow down"}
		require.Equal(t, limited, doing())
		wait(coordination.RateLimited)
		require.Equal(t, limited, doing(), "it goes on")
		resume := wait(coordination.ModelAway)
		require.Equal(t, at(3), doing().Since)
		time.Sleep(time.Second)
		resume()
		require.Equal(t, coordination.ModelAway, doing().Kind, "an outage lasts until the server replies")
		Replying(ctx)
		require.Equal(t, coordination.Doing{Kind: coordination.CallsModel, Since: at(4), What: "model call 1"}, doing())
		resume()
		require.Equal(t, at(4), doing().Since)
		over()
		require.Nil(t, h.currentDetails().Doing)

		Waiting(ctx, coordination.Doing{Kind: coordination.Queued})()
		require.Nil(t, h.currentDetails().Doing, "a call that is over is not resumed")
		Waiting(t.Context(), coordination.Doing{Kind: coordination.Queued})()
		Replying(t.Context())
	})
}

// An attempt does not report the activity of an earlier one.
func TestPrevious_dropsTheActivity(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetHeartbeatDetails(details{Fruitless: 2, Doing: &coordination.Doing{Kind: coordination.RateLimited}})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		require.Equal(t, details{Fruitless: 2}, previousDetails(ctx))
		return nil
	}, activity.RegisterOptions{Name: "do"})
	_, err := env.ExecuteActivity("do")
	require.NoError(t, err)
}

func TestReported(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0).UTC()
	limited := &coordination.Doing{Kind: coordination.RateLimited, Since: at, What: "slow down"}
	for name, tt := range map[string]struct {
		details any
		want    Report
	}{
		"a wait":           {details{Fruitless: 1, Doing: limited}, Report{Doing: limited}},
		"progress":         {details{}, Report{Progress: true}},
		"an outage":        {details{Fruitless: 1, Outage: &outage{Since: at}}, Report{Away: at}},
		"of another shape": {[]int{1}, Report{}},
	} {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(tt.details)
		require.NoError(t, err)
		require.Equal(t, tt.want, Reported(payloads), name)
	}
	require.Zero(t, Reported(nil))
}

// A step with many short calls does not use up the worker's spare heartbeats, and its last
// activity is reported within about a second.
func TestHeart_manyShortCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var last string
		beats := 0
		h, ctx := patient(t.Context(), func(_ context.Context, d details) error {
			mu.Lock()
			defer mu.Unlock()
			if beats++; d.Doing != nil {
				last = d.Doing.What
			}
			return nil
		})
		go h.sendBeats(ctx)
		for range 1000 {
			over := h.beginCall(coordination.RunsTool, "read_file")
			time.Sleep(10 * time.Millisecond)
			over()
		}
		h.beginCall(coordination.RunsTool, "run_command")
		time.Sleep(1100 * time.Millisecond)
		h.endStep(errors.New("done"))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, "run_command", last)
		require.InDelta(t, 14, beats, 3)
	})
}

// A thousand busy steps of a process send only the due heartbeats and the spare ones of
// the process. The waits of seventy steps that begin at the same moment are all reported
// within three seconds.
func TestSteps_heartbeatsOfAThousandSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var beats, waits atomic.Int64
		steps := NewSteps()
		begin := func() *heart {
			h, ctx := patient(t.Context(), func(_ context.Context, d details) error {
				beats.Add(1)
				if d.Doing != nil && d.Doing.Waits() {
					waits.Add(1)
				}
				return nil
			})
			h.steps = steps
			go h.sendBeats(ctx)
			return h
		}
		few := make([]*heart, 70)
		for i := range few {
			few[i] = begin()
		}
		time.Sleep(2 * time.Second)
		for _, h := range few {
			Waiting(context.WithValue(t.Context(), heartKey{}, h), coordination.Doing{Kind: coordination.ModelAway})
		}
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(t, waits.Load(), int64(len(few)))

		many := few
		for len(many) < 1000 {
			many = append(many, begin())
		}
		time.Sleep(testTimeout)
		beats.Store(0)
		const seconds = 60
		for range seconds {
			for _, h := range many {
				h.beginCall(coordination.RunsTool, "read_file")
			}
			time.Sleep(time.Second)
		}
		due := float64(len(many)) / (beatInterval(testTimeout).Seconds() * 0.9)
		require.LessOrEqual(t, float64(beats.Load())/seconds, due+spareRate+1)
		for _, h := range many {
			h.endStep(errors.New("done"))
		}
		synctest.Wait()
	})
}

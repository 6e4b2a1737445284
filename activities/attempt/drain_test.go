package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// slowModel is a model whose calls take a while.
type slowModel struct {
	takes time.Duration
	calls int
}

func (m *slowModel) Generate(ctx context.Context, _ llm.Request) (llm.Reply, error) {
	m.calls++
	select {
	case <-time.After(m.takes):
		return llm.Reply{Usage: llm.Usage{ModelCalls: 1}}, nil
	case <-ctx.Done():
		return llm.Reply{}, context.Cause(ctx)
	}
}

var _ loop.Model = (*slowModel)(nil)

// draining runs the calls of a step whose worker is asked to stop after five seconds, and returns
// when the step ended, with its usage.
func draining(t *testing.T, m *slowModel, grace time.Duration) (ended time.Duration, usage llm.Usage) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithCancelCause(t.Context())
	h := newHeart(NewSteps(), HeartbeatTimeout, details{})
	h.grace, h.cancel = grace, cancel
	a := &Attempt{heart: h, process: Process{}}
	a.Result.Usage.ModelCalls = 0
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		time.Sleep(5 * time.Second)
		h.endAfterCall(ctx)
	}()
	for ctx.Err() == nil {
		reply, err := watched{m, a}.Generate(ctx, llm.Request{})
		if err != nil {
			break
		}
		usage = usage.Add(reply.Usage)
	}
	ended = time.Since(began)
	require.ErrorIs(t, context.Cause(ctx), errStopped)
	<-stopped
	return ended, usage.Add(a.Failure().Usage)
}

// The end of a worker cuts no call that ends within the grace, and begins none; a longer one is cut
// and counted.
func TestHeart_drains(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes, grace, ends time.Duration
		calls, repeated    int64
	}{
		"a call that ends in time":  {12 * time.Second, 30 * time.Second, 12 * time.Second, 1, 0},
		"a call that takes longer":  {90 * time.Second, 30 * time.Second, 35 * time.Second, 0, 1},
		"a worker without a grace":  {12 * time.Second, 0, 5 * time.Second, 0, 1},
		"the call after the others": {4 * time.Second, 30 * time.Second, 8 * time.Second, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &slowModel{takes: tt.takes}
				ended, usage := draining(t, m, tt.grace)
				require.Equal(t, tt.ends, ended)
				require.Equal(t, tt.calls, usage.ModelCalls)
				require.Equal(t, tt.repeated, usage.Repeated)
				require.EqualValues(t, m.calls, usage.ModelCalls+usage.Repeated, "every request is counted once")
			})
		})
	}
}

// A request that the attempt before had lost is counted with the next reply, once, and is in the
// heartbeats until then.
func TestCutCallsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(NewSteps(), HeartbeatTimeout, details{Cut: 1})
		a := &Attempt{heart: h}
		require.EqualValues(t, 1, a.Failure().Usage.Repeated, "the step ends without another reply")
		for _, want := range []int64{1, 0} {
			reply, err := watched{&slowModel{}, a}.Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
			require.Equal(t, want, reply.Usage.Repeated)
		}
		require.Zero(t, a.Failure().Usage.Repeated)
	})
}

// Calls that may go on are those of models and tools in other runs.
func TestSteps_lasting(t *testing.T) {
	t.Parallel()
	s := NewSteps()
	for grace, kind := range map[time.Duration]coordination.DoingKind{0: coordination.CallsModel, 1: coordination.CallsModel, 2: "rate_limit", 3: ""} {
		h := newHeart(s, HeartbeatTimeout, details{})
		h.grace = grace
		if kind != "" {
			h.beginCall(kind, "it")
		}
		s.registerHeart(h)
	}
	require.Equal(t, 1, s.Lasting())
}

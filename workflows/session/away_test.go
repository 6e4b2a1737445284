package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"conclave/activities/attempt"
	"conclave/activities/openai"
	acts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// pipes is a listener whose connections are pipes, so that waiting for a server takes no time in a
// synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reply replies to a request for the n-th call of a model, from 1.
type reply func(n int, w http.ResponseWriter, r *http.Request)

// says replies with a message after some time.
func says(after time.Duration, script ...llm.Message) reply {
	return func(n int, w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(after):
		case <-r.Context().Done():
			return
		}
		call := script[min(n, len(script))-1].ToolCalls[0]
		body := map[string]any{"choices": []any{map[string]any{"finish_reason": "tool_calls", "message": map[string]any{
			"role": "assistant", "tool_calls": []any{map[string]any{
				"id": "c", "type": "function", "function": map[string]string{"name": call.Name, "arguments": call.Arguments},
			}},
		}}}, "usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 1}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
}

// neverReplies accepts requests and never replies.
func neverReplies(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// opens sends the head of a stream at once, then as says.
func opens(after time.Duration, script ...llm.Message) reply {
	late := says(after, script...)
	return func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		late(n, w, r)
	}
}

// first replies once in one way, and later in another.
func first(one, others reply) reply {
	return func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			one(n, w, r)
			return
		}
		others(n, w, r)
	}
}

// cancelling ends cancelled activities as a server would. The test environment forgets them, fails
// their next heartbeats and waits for ever for their next attempts.
type cancelling struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
}

func (c *cancelling) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &cancelling{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}}
}

func (c *cancelling) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := c.Next.ExecuteActivity(ctx, in)
	if _, forgotten := errors.AsType[*serviceerror.NotFound](context.Cause(ctx)); forgotten && err != nil {
		return nil, temporal.NewCanceledError()
	}
	return result, err
}

// outing is a session whose models are served over HTTP.
type outing struct {
	*stagetest.Stage
	result session.Result
	took   time.Duration
	events []coordination.Entry
}

// texts returns the reasons of the events of a kind, by agent.
func (o outing) texts(kind string) map[string]string {
	texts := map[string]string{}
	for _, e := range o.events {
		if e.Kind == kind {
			texts[e.Agent] = e.Reason
		}
	}
	return texts
}

// playServed plays a session of agents whose models reply over HTTP.
func playServed(t *testing.T, models map[string]reply, change func(*config.Team)) outing {
	t.Helper()
	listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	var mu sync.Mutex
	calls := map[string]int{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Model string }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &request)
		mu.Lock()
		calls[request.Model]++
		n := calls[request.Model]
		mu.Unlock()
		models[request.Model](n, w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial}
	scripts := map[string][]any{}
	for agent := range models {
		scripts[agent] = nil
	}
	s := stagetest.New(t, scripts, change)
	s.SetTestTimeout(time.Hour)
	s.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&cancelling{}, &workflows.SignalOrder{}}})
	var outages openai.Outages
	s.Model = func(a config.Agent) (loop.Model, error) {
		return openai.New(openai.Options{
			BaseURL: "http://models.test/v1", Model: a.ID, HTTPClient: &http.Client{Transport: transport}, Outages: &outages,
			Params: map[string]any{"stream": false}, Replying: attempt.Replying, Patience: attempt.Patience, Waiting: waiting,
		})
	}
	began := time.Now()
	o := outing{Stage: s, result: stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})}
	o.took = time.Since(began)
	time.Sleep(time.Minute) // the test environment does not wait for the ends of cancelled steps
	transport.CloseIdleConnections()
	_ = server.Close()
	value, err := s.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	require.NoError(t, value.Get(&o.events))
	return o
}

// waiting reports waits as workers do.
func waiting(ctx context.Context, failed *llm.Error, until time.Time) (over func()) {
	w := coordination.Doing{Kind: coordination.RateLimited, Until: until, What: failed.Message}
	if failed.Outage() {
		w.Kind, w.Since = coordination.ModelAway, failed.Since
	} else {
		attempt.Responded(ctx)
	}
	return attempt.Waiting(ctx, w)
}

func votes(after time.Duration) reply {
	return says(after, stagetest.Answer("An answer."), stagetest.Vote("agent1"))
}

// refusing replies with a status after some time, for a number of calls, and then as later.
func refusing(status int, after time.Duration, calls int, later reply) reply {
	return func(n int, w http.ResponseWriter, r *http.Request) {
		if n > calls {
			later(n-calls, w, r)
			return
		}
		select {
		case <-time.After(after):
			w.Header().Set("Retry-After", "30")
			http.Error(w, `{"error":{"message":"boom"}}`, status)
		case <-r.Context().Done():
		}
	}
}

// A model that fails or hangs holds up members that have answered for a minute, not for ten.
func TestAway_holdsNobody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others, c reply
		seconds   float64
	}{
		// The first failure comes after 40 s. At the decision the third call is under way.
		"it fails":                      {votes(time.Second), refusing(500, 40*time.Second, 1000, nil), 40 + 60 + 1},
		"it hangs":                      {votes(time.Second), neverReplies, 60 + 1},
		"it hangs beside calls of 20 s": {votes(20 * time.Second), neverReplies, 4*20 + 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := playServed(t, map[string]reply{"agent_a": tt.others, "agent_b": tt.others, "agent_c": tt.c}, nil)
				require.Equal(t, "consensus", o.result.Status, "%v", o.result.Error)
				require.Equal(t, []string{"agent_a", "agent_b"}, o.result.Voters)
				require.Equal(t, []string{"agent_c"}, o.result.Cut)
				require.Empty(t, o.result.Failed, "its step has not failed")
				require.InDelta(t, tt.seconds, o.took.Seconds(), 2)
				c := stagetest.State[acts.State](t, o.Stage).Agents[2]
				require.Equal(t, "no_action", c.Status)
				require.Nil(t, c.Error)
				require.Contains(t, o.texts(coordination.EntryAway), "agent_c")
			})
		})
	}
}

// A model that thinks for 150 s loses nothing: its call is not cut, and its reply is taken when it
// comes. It is not away at all if a call of the session took a quarter of that time, or if its server
// has begun to reply.
func TestAway_thinkingLosesNothing(t *testing.T) {
	t.Parallel()
	thinks := says(150*time.Second, stagetest.Answer("An answer."), stagetest.Vote("agent1"))
	slowVotes := func(first time.Duration) reply {
		return func(n int, w http.ResponseWriter, r *http.Request) {
			after := 100 * time.Second
			if n == 1 {
				after = first
			}
			votes(after)(n, w, r)
		}
	}
	for name, tt := range map[string]struct {
		a, b, c reply
		away    bool
	}{
		"while the others vote":        {slowVotes(time.Second), slowVotes(time.Second), thinks, true},
		"beside calls of forty secs":   {votes(40 * time.Second), votes(time.Second), thinks, false},
		"a server that has begun":      {votes(time.Second), votes(time.Second), opens(150*time.Second, stagetest.Answer("An answer."), stagetest.Vote("agent1")), false},
		"beside one that has answered": {votes(time.Second), thinks, thinks, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := playServed(t, map[string]reply{"agent_a": tt.a, "agent_b": tt.b, "agent_c": tt.c}, nil)
				require.Equal(t, "consensus", o.result.Status, "%v", o.result.Error)
				require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, o.result.Voters)
				require.Empty(t, o.result.Cut)
				require.Equal(t, tt.away, len(o.texts(coordination.EntryAway)) > 0)
				c := stagetest.State[acts.State](t, o.Stage).Agents[2]
				require.Equal(t, 1, c.Answers)
				require.EqualValues(t, 2, c.Cost.ModelCalls, "no call is repeated")
			})
		})
	}
}

// A server that limits requests is not in an outage, however long it does so.
func TestAway_notForARateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := refusing(429, time.Second, 9, votes(time.Second))
		o := playServed(t, map[string]reply{"agent_a": votes(time.Second), "agent_b": votes(time.Second), "agent_c": limited}, nil)
		require.Equal(t, "consensus", o.result.Status, "%v", o.result.Error)
		require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, o.result.Voters)
		require.Empty(t, o.texts(coordination.EntryAway))
	})
}

// The agent comes back when its model replies, before its step ends.
func TestAway_comesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := first(votes(time.Second), votes(400*time.Second))
		recovers := refusing(500, 40*time.Second, 3, votes(time.Second))
		o := playServed(t, map[string]reply{"agent_a": slow, "agent_b": slow, "agent_c": recovers}, nil)
		require.Equal(t, "consensus", o.result.Status, "%v", o.result.Error)
		require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, o.result.Voters)
		require.Contains(t, o.texts(coordination.EntryAway)["agent_c"], "boom")
		require.Contains(t, o.texts(coordination.EntryBack), "agent_c")
	})
}

// A report that no step has sent changes nothing.
func TestAway_ignoresOtherReports(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, stagetest.Seed(), nil)
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(attempt.ModelSignal, "no object")
		s.SignalWorkflow(attempt.ModelSignal, attempt.ModelReport{Launch: "l99", Out: &coordination.Doing{}})
		for _, launch := range []coordination.LaunchID{"l1", "l2", "l3"} {
			s.SignalWorkflow(attempt.ModelSignal, attempt.ModelReport{Launch: launch, Silent: 5})
		}
	}, 0)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?"})
	require.Equal(t, "consensus", result.Status)
	require.Len(t, result.Voters, 3)
}

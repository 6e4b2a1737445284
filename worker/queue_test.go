package worker

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// arrivals records the callers that reach the model, with times.
type arrivals struct {
	mu    sync.Mutex
	order []int
	at    []time.Duration
	start time.Time
}

func (a *arrivals) by(caller int) loop.Model { return visit{a, caller} }

type visit struct {
	*arrivals
	caller int
}

func (v visit) Generate(context.Context, llm.Request) (llm.Reply, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.order, v.at = append(v.order, v.caller), append(v.at, time.Since(v.start))
	return llm.Reply{}, nil
}

func upTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return all
}

// A hundred agents at once: each passes in the order of arrival, at the pace of the
// limit, and none fails.
func TestQueue_passesAHundredInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(120)}})["p"]
		a := &arrivals{start: time.Now()}
		errs := make(chan error, 100)
		waited := make([]time.Duration, cap(errs))
		for i := range cap(errs) {
			go func() {
				reply, err := p.limitModel(a.by(i)).Generate(t.Context(), llm.Request{})
				waited[i] = reply.Waited
				errs <- err
			}()
			synctest.Wait() // it is in the line
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.Equal(t, upTo(100), a.order)
		require.Zero(t, a.at[19], "a sixth of a minute's worth at once")
		for i := 20; i < 100; i++ {
			require.Equal(t, time.Duration(i-19)*time.Second/2, a.at[i])
		}
		require.Equal(t, a.at, waited, "waiting is not part of the model's time")
		require.Empty(t, p.queue.line)
	})
}

// A step does not wait for more than a minute: it gets a time to return, and keeps its
// position.
func TestQueue_longWaitKeepsItsPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the provider p", count(6), nil) // every ten seconds
		a := &arrivals{start: time.Now()}
		var longest time.Duration
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				for {
					err := a.attempt(t.Context(), q, i)
					var limited *llm.Error
					if !errors.As(err, &limited) {
						return
					}
					longest = max(longest, limited.RetryAfter)
					time.Sleep(limited.RetryAfter + time.Second) // a slow scheduler
				}
			})
			synctest.Wait()
		}
		time.Sleep(65 * time.Second)
		wg.Go(func() { _ = a.attempt(t.Context(), q, 99) }) // a new call goes to the end
		wg.Wait()
		require.Equal(t, upTo(30), a.order, "the new one is sent away")
		require.Equal(t, 290*time.Second, a.at[29], "no turn is lost")
		require.Equal(t, 260*time.Second, longest)
	})
}

func (a *arrivals) attempt(ctx context.Context, q *queue, caller int) error {
	if err := q.awaitTurn(ctx, string(rune('a'+caller)), 0); err != nil {
		return err
	}
	_, err := a.by(caller).Generate(ctx, llm.Request{})
	return err
}

func TestQueue_stepThatDoesNotReturnHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the provider p", count(1), nil)
		require.NoError(t, q.awaitTurn(t.Context(), "a", 0))
		go func() { _ = q.awaitTurn(t.Context(), "b", 0) }()
		synctest.Wait()
		var limited *llm.Error
		require.ErrorAs(t, q.awaitTurn(t.Context(), "never again", 0), &limited)
		require.Equal(t, llm.RateLimited, limited.Kind)
		require.Equal(t, 90*time.Second, limited.RetryAfter, "earlyReturn, to be there at its turn")
		require.Equal(t, "this worker's limit of 1 requests per minute at the provider p is used up for 2m0s; "+
			"raise it in the worker configuration", limited.Error())
		time.Sleep(150 * time.Second)
		require.NoError(t, q.awaitTurn(t.Context(), "c", 0), "steps that gave up their slots delay no other")
		time.Sleep(time.Hour)
		require.NoError(t, q.awaitTurn(t.Context(), "d", 0))
		require.Empty(t, q.line)
	})
}

func TestQueue_callWithoutAStepKeepsNoPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the provider p", count(1), nil)
		for range 2 {
			go func() { _ = q.awaitTurn(t.Context(), "", 0) }()
			synctest.Wait()
		}
		require.Error(t, q.awaitTurn(t.Context(), "", 0))
		q.mu.Lock()
		require.Len(t, q.line, 1)
		q.mu.Unlock()
		time.Sleep(time.Minute)
	})
}

func TestQueue_cancelledCallLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(6)}})["p"]
		a := &arrivals{start: time.Now()}
		ended := errors.New("the step was ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error, 4)
		for i := range cap(errs) {
			ctx := ctx
			if i != 1 {
				ctx = t.Context()
			}
			go func() {
				_, err := p.limitModel(a.by(i)).Generate(ctx, llm.Request{})
				errs <- err
			}()
			synctest.Wait()
		}
		require.NoError(t, <-errs)
		cancel(ended)
		require.ErrorIs(t, <-errs, ended)
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		require.Equal(t, []int{0, 2, 3}, a.order)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, a.at)
	})
}

func TestLimit_isCorrectedByTheUsage(t *testing.T) {
	t.Parallel()
	large := llm.Request{Messages: []llm.Message{{Role: llm.User, Content: strings.Repeat("word", 999)}}}
	refused := &llm.Error{Kind: llm.RateLimited}
	for name, tt := range map[string]struct {
		model says
		waits float64 // of the next call, in seconds; a hundred tokens in each
	}{
		"less":                {says{usage: llm.Usage{InputTokens: 300, ModelCalls: 1}}, 3},
		"more":                {says{usage: llm.Usage{InputTokens: 1000, OutputTokens: 700, ModelCalls: 1}}, 17},
		"refused, for free":   {says{err: refused}, 0},
		"it is not said":      {says{usage: llm.Usage{ModelCalls: 1}}, 10},
		"paid and of no use":  {says{usage: llm.Usage{InputTokens: 1200, ModelCalls: 1}, err: refused}, 12},
		"as much as expected": {says{usage: llm.Usage{InputTokens: 1000, ModelCalls: 1}}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := behind(Provider{TokensPerMinute: count(6000)}, tt.model)
				start := time.Now()
				_, _ = m.Generate(t.Context(), large)
				_, _ = m.Generate(t.Context(), large)
				require.InDelta(t, tt.waits, time.Since(start).Seconds(), 0.1)
			})
		})
	}
}

func TestLimit_absurdUsageIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the provider p", nil, count(6000))
		m := limited{model: says{usage: llm.Usage{InputTokens: 1e12, OutputTokens: 1e12, ModelCalls: 1}}, queue: q}
		_, err := m.Generate(t.Context(), llm.Request{})
		require.NoError(t, err)
		var limited *llm.Error
		require.ErrorAs(t, q.awaitTurn(t.Context(), "", 1), &limited)
		require.InDelta(t, 10*time.Minute-earlyReturn, limited.RetryAfter, float64(15*time.Second))
	})
}

// asks is a model whose server gives these responses one by one.
type asks struct {
	transport
	answers *[]*http.Response
}

func (s asks) RoundTrip(*http.Request) (*http.Response, error) {
	next := (*s.answers)[0]
	*s.answers = (*s.answers)[1:]
	return next, nil
}

func (s asks) Generate(ctx context.Context, _ llm.Request) (llm.Reply, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://h/v1", nil)
		if err != nil {
			return llm.Reply{}, err
		}
		if res, err := s.transport.RoundTrip(req); err != nil || res.StatusCode == http.StatusOK {
			return llm.Reply{}, err
		}
	}
}

func response(status int, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// When a server asks one call to wait, all calls pause.
func TestQueue_pausesWhenTheServerAsks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asked *http.Response
		waits time.Duration
	}{
		"seconds":              {response(429, "Retry-After", "7"), 7 * time.Second},
		"milliseconds":         {response(429, "Retry-After-Ms", "1500", "Retry-After", "2"), 1500 * time.Millisecond},
		"a date":               {response(429, "Retry-After", "Sat, 01 Jan 2000 00:00:20 GMT"), 20 * time.Second},
		"overloaded":           {response(503, "Retry-After", "7"), 7 * time.Second},
		"a day":                {response(429, "Retry-After", "86400"), time.Minute},
		"it does not say":      {response(429), 0},
		"nonsense":             {response(429, "Retry-After", "soon"), 0},
		"less than nothing":    {response(429, "Retry-After", "-5"), 0},
		"a failure of its own": {response(500, "Retry-After", "7"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // its clock begins with the year 2000
				p := newProviders(map[string]Provider{"p": {}})["p"]
				l := newTransport(p.queue)
				server := asks{answers: &[]*http.Response{tt.asked, response(200), response(200)}}
				l.next = server
				server.transport = l
				start := time.Now()
				_, err := p.limitModel(server).Generate(t.Context(), llm.Request{})
				require.NoError(t, err)
				_, err = p.limitModel(server).Generate(t.Context(), llm.Request{})
				require.NoError(t, err)
				require.Equal(t, tt.waits, time.Since(start))
			})
		})
	}
}

func TestLimit_retriesCountAsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProviders(map[string]Provider{"p": {RequestsPerMinute: count(60)}})["p"]
		l := newTransport(p.queue)
		var answers []*http.Response
		for range 14 {
			answers = append(answers, response(500))
		}
		answers = append(answers, response(200), response(200))
		server := asks{answers: &answers}
		l.next = server
		server.transport = l
		start := time.Now()
		for range 2 {
			_, err := p.limitModel(server).Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
		}
		require.Equal(t, 6*time.Second, time.Since(start), "fifteen requests where ten are at once")
	})
}

func TestCallerOf_isTheSameInAllAttempts(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	names := func() string {
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) { return callerOf(ctx), nil },
			activity.RegisterOptions{Name: "step"})
		value, err := env.ExecuteActivity("step")
		require.NoError(t, err)
		var name string
		require.NoError(t, value.Get(&name))
		return name
	}
	first := names()
	require.NotEmpty(t, first)
	require.Equal(t, first, names())
	require.Empty(t, callerOf(t.Context()), "a call outside of a step has none")
}

func TestQueue_reportsItsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the provider house", count(12), nil) // 2 at once, then one in 5 seconds
		var waits []*coordination.Doing
		for range 4 {
			_, wait, err := q.joinLine(t.Context(), "", 1)
			require.NoError(t, err)
			waits = append(waits, wait)
		}
		require.Nil(t, waits[0])
		require.Nil(t, waits[1])
		require.Equal(t, &coordination.Doing{
			Kind: coordination.Queued, Until: time.Now().Add(10 * time.Second),
			What: "this worker's limit of 12 requests per minute at the provider house is used up; calls ahead: 3",
		}, waits[3])

		paused := newQueue("the provider busy", nil, nil)
		paused.pauseCalls(7 * time.Second)
		_, wait, err := paused.joinLine(t.Context(), "", 1)
		require.NoError(t, err)
		require.Equal(t, &coordination.Doing{
			Kind: coordination.RateLimited, Until: time.Now().Add(7 * time.Second), What: "the capacity of the provider busy is used up",
		}, wait)
	})
}

// Calls beyond max_concurrent_calls wait, in their order of arrival, until others have
// ended.
func TestQueue_concurrentCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers, backend := newServers(), config.Backend{BaseURL: "http://h/v1", Model: "m", MaxConcurrentCalls: count(2)}
		a := &arrivals{start: time.Now()}
		waited := make([]time.Duration, 5)
		var all sync.WaitGroup
		for i := range waited {
			all.Go(func() {
				reply, err := servers.limitModel(backend, slow{a.by(i)}).Generate(t.Context(), llm.Request{})
				waited[i] = reply.Waited
				require.NoError(t, err)
			})
			synctest.Wait() // it is in the line
		}
		all.Wait()
		require.Equal(t, upTo(5), a.order)
		require.Equal(t, []time.Duration{0, 0, time.Minute, time.Minute, 2 * time.Minute}, waited)
	})
}

// slow is a model that takes a minute for each call.
type slow struct{ loop.Model }

func (s slow) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	reply, err := s.Model.Generate(ctx, req)
	time.Sleep(time.Minute)
	return reply, err
}

func TestQueue_concurrentCallsOfACancelledStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("the model m", nil, nil)
		q.setConcurrent(1)
		require.NoError(t, q.awaitTurn(t.Context(), "", 1))
		_, wait, err := q.joinLine(t.Context(), "step", 1)
		require.NoError(t, err)
		require.Equal(t, &coordination.Doing{Kind: coordination.Queued, What: "the model m takes 1 at a time; calls running: 1, ahead: 0"}, wait)
		q.removeWaiter(q.line[0])

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, q.awaitTurn(ctx, "", 1), context.DeadlineExceeded)
		require.Empty(t, q.line)
		q.endCall()
		require.NoError(t, q.awaitTurn(t.Context(), "", 1), "the call that gave up is not counted")
		q.setConcurrent(2)
		require.NoError(t, q.awaitTurn(t.Context(), "", 1))
	})
}

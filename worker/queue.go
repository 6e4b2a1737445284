package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/time/rate"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

const (
	// longestWait bounds the pause that a server can request and the wait of a model call inside a
	// step. If the wait would be longer, the step gives up its slot but keeps its position.
	longestWait = time.Minute

	// earlyReturn is how long before its turn a step that gave up its slot is retried.
	earlyReturn = longestWait / 2

	// shownWait is the minimum wait that heartbeats report; loggedWait is the minimum wait that is logged.
	shownWait, loggedWait = time.Second, 5 * time.Second
)

// queue holds the model calls that wait for one provider or model, in order of arrival.
type queue struct {
	of               string // name of the provider or the model, for people
	requests, tokens *limit // nil for none

	mu          sync.Mutex
	concurrent  int // calls at a time; 0 for any number
	running     int // calls that are running
	line        []*waiter
	pausedUntil time.Time
	changed     chan struct{} // closed when the first in line may have changed, or may pass
}

// waiter is a call in a queue.
type waiter struct {
	tokens int
	caller string    // the step, which may give up its slot and return; empty outside a step
	away   time.Time // deadline for the return of a step that gave up its slot; zero while it waits
}

func newQueue(of string, requests, tokens *int) *queue {
	return &queue{
		of:       of,
		requests: perMinute(of, requests, "requests"),
		tokens:   perMinute(of, tokens, "tokens"),
		changed:  make(chan struct{}),
	}
}

// awaitTurn waits for the turn of a call. The caller calls endCall when the call has ended. If the
// limits per minute require a wait above longestWait, awaitTurn returns an *llm.Error with the time
// after which to retry.
func (q *queue) awaitTurn(ctx context.Context, caller string, tokens int) error {
	w, expected, err := q.joinLine(ctx, caller, tokens)
	if err != nil {
		return err
	}
	if expected != nil {
		defer attempt.Waiting(ctx, *expected)()
	}
	for {
		wait, changed := q.tryEnter(w)
		if wait == 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			q.mu.Lock()
			defer q.mu.Unlock()
			q.removeWaiter(w)
			return fmt.Errorf("wait for a turn at %s: %w", q.of, context.Cause(ctx))
		}
		timer.Stop()
	}
}

// joinLine adds a call to the line, or finds the position that its step kept. It returns the
// expected wait, or nil if the wait is shorter than shownWait. The wait has no end if the call
// waits for another call to end.
func (q *queue) joinLine(ctx context.Context, caller string, tokens int) (w *waiter, expected *coordination.Doing, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.line = slices.DeleteFunc(q.line, func(w *waiter) bool { return !w.away.IsZero() && w.away.Before(now) })
	returning := slices.IndexFunc(q.line, func(w *waiter) bool { return caller != "" && w.caller == caller && !w.away.IsZero() })
	if returning < 0 {
		returning = len(q.line)
		q.line = append(q.line, &waiter{caller: caller})
	}
	w = q.line[returning]
	w.tokens, w.away = tokens, time.Time{}
	ahead := q.line[:returning]
	wait, limit := q.expectedWait(now, ahead, w)
	switch {
	case wait > longestWait:
		if w.away = now.Add(wait + longestWait); caller == "" {
			q.removeWaiter(w)
		}
		return nil, nil, &llm.Error{
			Kind: llm.RateLimited, RetryAfter: wait - earlyReturn,
			Message: fmt.Sprintf("%s is used up for %v; raise it in the worker configuration", limit, wait.Round(time.Second)),
		}
	case wait < shownWait && (q.concurrent == 0 || q.running+len(ahead) < q.concurrent):
		return w, nil, nil
	case wait < shownWait:
		return w, &coordination.Doing{Kind: coordination.Queued, What: fmt.Sprintf(
			"%s takes %d at a time; calls running: %d, ahead: %d", q.of, q.concurrent, q.running, len(ahead))}, nil
	case wait >= loggedWait && activity.IsActivity(ctx):
		activity.GetLogger(ctx).Info("a model call waits for its turn", "at", q.of, "ahead", len(ahead), "wait", wait.Round(time.Second))
	}
	expected = &coordination.Doing{Kind: coordination.Queued, Until: now.Add(wait), What: limit + " is used up"}
	if n := len(ahead); n > 0 {
		expected.What += fmt.Sprintf("; calls ahead: %d", n)
	}
	if q.pausedUntil.After(now) {
		expected.Kind = coordination.RateLimited
	}
	return w, expected, nil
}

// expectedWait estimates how long a call with others ahead has to wait, and names the limit that is
// the reason.
func (q *queue) expectedWait(now time.Time, ahead []*waiter, w *waiter) (wait time.Duration, limit string) {
	tokens := q.tokens.atMost(w.tokens)
	for _, other := range ahead {
		tokens += other.tokens
	}
	wait, limit = max(0, q.pausedUntil.Sub(now)), "the capacity of "+q.of
	if d := q.requests.timeUntil(now, len(ahead)+1); d > wait {
		wait, limit = d, "this worker's limit of "+q.requests.displayName()
	}
	if d := q.tokens.timeUntil(now, tokens); d > wait {
		wait, limit = d, "this worker's limit of "+q.tokens.displayName()
	}
	return wait, limit
}

// tryEnter admits the call and returns 0. Otherwise it returns the longest time to wait before the
// next call of tryEnter, and a channel that is closed when the queue changes.
func (q *queue) tryEnter(w *waiter) (wait time.Duration, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	present := slices.IndexFunc(q.line, func(w *waiter) bool { return w.away.IsZero() })
	if q.line[present] != w || q.concurrent > 0 && q.running >= q.concurrent {
		return longestWait, q.changed
	}
	now := time.Now()
	if wait, _ = q.expectedWait(now, nil, w); wait > 0 {
		return wait, q.changed
	}
	q.requests.takeUnits(now, 1)
	q.tokens.takeUnits(now, q.tokens.atMost(w.tokens))
	q.running++
	q.removeWaiter(w)
	return 0, nil
}

func (q *queue) setConcurrent(concurrent int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.concurrent = concurrent
	q.wakeWaiters()
}

func (q *queue) endCall() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.wakeWaiters()
}

// removeWaiter removes a call from the line. The caller holds the lock.
func (q *queue) removeWaiter(w *waiter) {
	q.line = slices.DeleteFunc(q.line, func(other *waiter) bool { return other == w })
	q.wakeWaiters()
}

// wakeWaiters makes all waiting calls try again. The caller holds the lock.
func (q *queue) wakeWaiters() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// chargeExcess subtracts the requests and tokens that a call used beyond those charged by tryEnter.
func (q *queue) chargeExcess(requests, tokens int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.requests.takeUnits(now, requests)
	q.tokens.takeUnits(now, tokens)
	q.wakeWaiters()
}

func (q *queue) pauseCalls(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until := time.Now().Add(min(d, longestWait)); until.After(q.pausedUntil) {
		q.pausedUntil = until
	}
}

// callerOf identifies the step of a call across all its attempts. It returns "" outside a step.
func callerOf(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	info := activity.GetInfo(ctx)
	return info.WorkflowExecution.RunID + "/" + info.ActivityID
}

// limit is the number of requests or tokens of a provider that this worker may use in a minute: its
// share of the limit for all live workers. The use is spread evenly after an initial burst. A nil
// limit allows everything.
type limit struct {
	*rate.Limiter
	all      int    // the provider's, for all workers together
	unit, of string // words for people: the unit and the owner of the limit
	workers  int
}

// burstFraction is the divisor for the initial burst: a sixth of the limit per minute.
const burstFraction = 6

func perMinute(of string, n *int, unit string) *limit {
	if n == nil {
		return nil
	}
	return &limit{
		Limiter: rate.NewLimiter(perSecond(*n, 1), burstSize(*n, 1)),
		all:     *n, unit: unit, of: of, workers: 1,
	}
}

func (l *limit) divideLimit(now time.Time, workers int) (changed bool) {
	if l == nil || l.workers == workers {
		return false
	}
	l.workers = workers
	l.SetLimitAt(now, perSecond(l.all, workers))
	l.SetBurstAt(now, burstSize(l.all, workers))
	return true
}

// perSecond and burstSize return the share of one of several workers in a limit of n per minute.
func perSecond(n, workers int) rate.Limit {
	return rate.Limit(float64(n) / float64(workers) / time.Minute.Seconds())
}

func burstSize(n, workers int) int { return max(1, n/workers/burstFraction) }

func (l *limit) displayName() string {
	name := fmt.Sprintf("%d %s per minute at %s", l.all, l.unit, l.of)
	if l.workers > 1 {
		return fmt.Sprintf("%s (shared by %d workers)", name, l.workers)
	}
	return name
}

// timeUntil returns the time until n units are available if nothing else is used.
func (l *limit) timeUntil(now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	const rounding = 1e-6 // rounding error of the limiter's count
	if missing <= rounding {
		return 0
	}
	seconds := missing / float64(l.Limit())
	return time.Duration(min(math.Ceil(seconds*float64(time.Second)), math.MaxInt64/2))
}

// atMost returns n, but at most a burst, since no call can wait for more than that.
func (l *limit) atMost(n int) int {
	if l == nil {
		return 0
	}
	return min(n, l.Burst())
}

// longestDebt bounds the wait that is caused by the usage of one call, because a server may report
// absurd numbers.
const longestDebt = 10 * time.Minute

// takeUnits takes n units even if fewer are available; later calls wait until the debt is paid. A
// negative n returns units.
func (l *limit) takeUnits(now time.Time, n int) {
	if l == nil {
		return
	}
	n = min(n, int(float64(l.Limit())*longestDebt.Seconds()))
	for ; n > l.Burst(); n -= l.Burst() {
		l.ReserveN(now, l.Burst())
	}
	l.ReserveN(now, n)
}

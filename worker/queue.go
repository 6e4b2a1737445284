package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

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

	// shownWait is the minimum wait that heartbeats report; loggedWait is the minimum wait that is
	// logged.
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

// enter waits for the turn of a call. The caller calls leave when the call has ended. If the limits
// per minute require a wait above longestWait, enter returns an *llm.Error with the time after
// which to retry.
func (q *queue) enter(ctx context.Context, caller string, tokens int) error {
	w, expected, err := q.join(ctx, caller, tokens)
	if err != nil {
		return err
	}
	if expected != nil {
		defer attempt.Waiting(ctx, *expected)()
	}
	for {
		wait, changed := q.try(w)
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
			q.remove(w)
			return fmt.Errorf("waiting for a turn at %s: %w", q.of, context.Cause(ctx))
		}
		timer.Stop()
	}
}

// join adds a call to the line, or finds the position that its step kept. It returns the expected
// wait, or nil if the wait is shorter than shownWait. The wait has no end if the call waits for
// another call to end.
func (q *queue) join(ctx context.Context, caller string, tokens int) (w *waiter, expected *coordination.Doing, err error) {
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
	wait, limit := q.wait(now, ahead, w)
	switch {
	case wait > longestWait:
		if w.away = now.Add(wait + longestWait); caller == "" {
			q.remove(w)
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

// wait estimates how long a call with others ahead has to wait, and names the limit that is the
// reason.
func (q *queue) wait(now time.Time, ahead []*waiter, w *waiter) (wait time.Duration, limit string) {
	tokens := q.tokens.atMost(w.tokens)
	for _, other := range ahead {
		tokens += other.tokens
	}
	wait, limit = max(0, q.pausedUntil.Sub(now)), "the capacity of "+q.of
	if d := q.requests.until(now, len(ahead)+1); d > wait {
		wait, limit = d, "this worker's limit of "+q.requests.name()
	}
	if d := q.tokens.until(now, tokens); d > wait {
		wait, limit = d, "this worker's limit of "+q.tokens.name()
	}
	return wait, limit
}

// try admits the call and returns 0. Otherwise it returns the longest time to wait before the next
// call of try, and a channel that is closed when the queue changes.
func (q *queue) try(w *waiter) (wait time.Duration, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	present := slices.IndexFunc(q.line, func(w *waiter) bool { return w.away.IsZero() })
	if q.line[present] != w || q.concurrent > 0 && q.running >= q.concurrent {
		return longestWait, q.changed
	}
	now := time.Now()
	if wait, _ = q.wait(now, nil, w); wait > 0 {
		return wait, q.changed
	}
	q.requests.use(now, 1)
	q.tokens.use(now, q.tokens.atMost(w.tokens))
	q.running++
	q.remove(w)
	return 0, nil
}

// allow sets the number of calls that may run concurrently.
func (q *queue) allow(concurrent int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.concurrent = concurrent
	q.wake()
}

// leave records the end of a call that has entered.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.wake()
}

// remove removes a call from the line. The caller holds the lock.
func (q *queue) remove(w *waiter) {
	q.line = slices.DeleteFunc(q.line, func(other *waiter) bool { return other == w })
	q.wake()
}

// wake makes all waiting calls try again. The caller holds the lock.
func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// correct subtracts the requests and tokens that a call used beyond those charged by try.
func (q *queue) correct(requests, tokens int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.requests.use(now, requests)
	q.tokens.use(now, tokens)
	q.wake()
}

// pause stops all calls for the time that the server has requested.
func (q *queue) pause(d time.Duration) {
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

package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities/attempt"
	"conclave/engine/llm"
)

const (
	// longestWait bounds how long a model call waits for its turn inside a step.
	// Beyond it the step gives up its slot, but not its place, and comes back. It
	// bounds what a server can ask for, too.
	longestWait = time.Minute

	// early is how long before its turn a step comes back.
	early = longestWait / 2

	// worthTelling is from which wait on the worker's log tells of it.
	worthTelling = 5 * time.Second
)

// queue is where the model calls at one provider wait for their turn, in the
// order in which they came. A call is let through when its turn has come, when
// the limits allow it and when the server does not want to be left alone.
type queue struct {
	provider         string
	requests, tokens *limit // nil for none

	mu   sync.Mutex
	last int64    // number of the newest place
	line []*place // in order
	shut time.Time
}

// place is a call's in the line.
type place struct {
	number int64
	tokens int
	caller string        // the step, which can come back to it; empty for none
	gone   time.Time     // when a step that gave up its slot is not expected any more; zero while it waits
	look   chan struct{} // told when it may be its turn
}

func newQueue(provider string, requests, tokens *int) *queue {
	return &queue{
		provider: provider,
		requests: perMinute(provider, requests, "requests"),
		tokens:   perMinute(provider, tokens, "tokens"),
	}
}

// enter waits for the turn of a call of so many tokens. The error of a wait that
// is too long for a step is an *llm.Error that says when to come back.
func (q *queue) enter(ctx context.Context, tokens int) error {
	return q.enterAs(ctx, callerOf(ctx), tokens)
}

// enterAs is enter for a step of this name.
func (q *queue) enterAs(ctx context.Context, caller string, tokens int) error {
	p, why, err := q.join(ctx, caller, tokens)
	if err != nil {
		return err
	}
	if why != "" {
		defer attempt.Waiting(ctx, why)()
	}
	for {
		wait, mine := q.try(p)
		if mine {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.look:
		case <-ctx.Done():
			q.leave(p)
			err = fmt.Errorf("waiting for a turn at the provider %s: %w", q.provider, context.Cause(ctx))
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// join takes a place at the end of the line, or the one that the step had, unless
// its turn is too far away; and says what is waited for, if that is worth telling.
func (q *queue) join(ctx context.Context, caller string, tokens int) (p *place, waiting string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.line = slices.DeleteFunc(q.line, func(p *place) bool { return !p.gone.IsZero() && p.gone.Before(now) })
	p = q.again(caller)
	p.tokens = tokens
	ahead, wait, why := q.expect(p, now)
	switch {
	case wait > longestWait && p.caller == "":
		q.drop(p)
	case wait > longestWait:
		p.gone = now.Add(wait + longestWait)
	default:
		if wait < worthTelling {
			return p, "", nil
		}
		if activity.IsActivity(ctx) {
			activity.GetLogger(ctx).Info("a model call waits for its turn", "provider", q.provider, "ahead", ahead, "wait", wait.Round(time.Second))
		}
		return p, fmt.Sprintf("%s is used up, %d calls are ahead; its turn is at about %s", why, ahead, now.Add(wait).UTC().Format(time.RFC3339)), nil
	}
	return nil, "", &llm.Error{
		Kind: llm.RateLimited, RetryAfter: wait - early,
		Message: fmt.Sprintf("%s is used up for %v; raise it in the worker configuration, or run more workers", why, wait.Round(time.Second)),
	}
}

// again is the place of a step that comes back, else a new one.
func (q *queue) again(caller string) *place {
	for _, p := range q.line {
		if caller != "" && p.caller == caller && !p.gone.IsZero() {
			p.gone = time.Time{}
			return p
		}
	}
	q.last++
	p := &place{number: q.last, caller: caller, look: make(chan struct{}, 1)}
	q.line = append(q.line, p)
	return p
}

// expect is how many are ahead of a place and how long until its turn, as far as
// that can be told, and which limit that is for.
func (q *queue) expect(p *place, now time.Time) (ahead int, wait time.Duration, why string) {
	tokens := q.tokens.most(p.tokens)
	for _, other := range q.line {
		if other == p {
			break
		}
		ahead++
		tokens += other.tokens
	}
	wait, why = max(0, q.shut.Sub(now)), "what the provider "+q.provider+" allows"
	if d := q.requests.until(now, ahead+1); d > wait {
		wait, why = d, "this worker's limit of "+q.requests.name
	}
	if d := q.tokens.until(now, tokens); d > wait {
		wait, why = d, "this worker's limit of "+q.tokens.name
	}
	return ahead, wait, why
}

// try lets a call through, or says when to try again; whoever is behind another
// is told.
func (q *queue) try(p *place) (wait time.Duration, mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first() != p {
		return longestWait, false
	}
	now := time.Now()
	wait = max(q.shut.Sub(now), q.requests.until(now, 1), q.tokens.until(now, q.tokens.most(p.tokens)))
	if wait > 0 {
		return wait, false
	}
	q.requests.use(now, 1)
	q.tokens.use(now, q.tokens.most(p.tokens))
	q.drop(p)
	return 0, true
}

// leave gives a place up.
func (q *queue) leave(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(p)
}

func (q *queue) drop(p *place) {
	q.line = slices.DeleteFunc(q.line, func(other *place) bool { return other == p })
	q.wake()
}

// first is the place whose turn it is: nobody waits for those who are away.
func (q *queue) first() *place {
	for _, p := range q.line {
		if p.gone.IsZero() {
			return p
		}
	}
	return nil
}

func (q *queue) wake() {
	if p := q.first(); p != nil {
		select {
		case p.look <- struct{}{}:
		default: // it is told already
		}
	}
}

// settle corrects what was taken for a call by what it used: requests beyond the
// first, and tokens.
func (q *queue) settle(requests, tokens int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.requests.use(now, requests)
	q.tokens.use(now, tokens)
	q.wake()
}

// close lets nobody through for a while: the server has asked for it.
func (q *queue) close(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until := time.Now().Add(min(d, longestWait)); until.After(q.shut) {
		q.shut = until
	}
}

// callerOf is the step that a call is of, the same in all its attempts; empty
// outside of one.
func callerOf(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	info := activity.GetInfo(ctx)
	return info.WorkflowExecution.RunID + "/" + info.ActivityID
}

package attempt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/time/rate"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// Limits of the heartbeats of a process.
const (
	// maxSending bounds the number of concurrent heartbeats. More would only slow down a busy server.
	maxSending = 32

	// spareRate is the rate, per second, and the burst of heartbeats that only send new details.
	spareRate = 20

	// stepSpareRate and stepSpareBurst limit the same for one step, to prevent many short tool
	// calls from delaying the reports of other steps.
	stepSpareRate, stepSpareBurst = 1, 3

	// gathering is the delay of a heartbeat for new details. It covers the changes at the start of a
	// step, and is longer than the time from the last reply of most steps to their end.
	gathering = 100 * time.Millisecond

	// busyPause is the delay of a heartbeat for new details while due heartbeats wait.
	busyPause = 100 * time.Millisecond

	// lagCheck is how long the result of Lagging is cached.
	lagCheck = 250 * time.Millisecond
)

// Steps holds the steps that run in a process. Their heartbeats share the rate that the server
// accepts: due ones come first, and those that only send new details have a lower rate.
type Steps struct {
	sending chan struct{}
	spares  *rate.Limiter

	mu      sync.Mutex
	running map[string]*running // running steps by execution token
	hearts  map[*heart]struct{}
	due     int // heartbeats that wait for their turn
	lagging bool
	checked time.Time
}

// running is a step that may outlive the attempts that started or adopted it.
type running struct {
	heart  *heart
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after the fields below are set
	result any
	err    error
}

// NewSteps returns an empty Steps.
func NewSteps() *Steps {
	return &Steps{
		sending: make(chan struct{}, maxSending), spares: rate.NewLimiter(spareRate, spareRate),
		running: map[string]*running{}, hearts: map[*heart]struct{}{},
	}
}

// Lagging reports whether a heartbeat of this process is late, because it has more steps than it or
// the server can serve.
func (s *Steps) Lagging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.checked) < lagCheck {
		return s.lagging
	}
	s.checked, s.lagging = now, false
	for h := range s.hearts {
		if h.isLate(now) {
			s.lagging = true
			break
		}
	}
	return s.lagging
}

// Doing counts the steps by current activity: a model call, a tool call or a kind of wait. Steps
// between two calls have the kind "".
func (s *Steps) Doing() map[coordination.DoingKind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	doing := map[coordination.DoingKind]int{}
	for h := range s.hearts {
		kind := coordination.DoingKind("")
		if d := h.currentDetails().Doing; d != nil {
			kind = d.Kind
		}
		doing[kind]++
	}
	return doing
}

// Lasting returns the number of calls that go on for a while when their worker stops.
func (s *Steps) Lasting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := 0
	for h := range s.hearts {
		if d := h.currentDetails().Doing; h.grace > 0 && d != nil && !d.Waits() {
			calls++
		}
	}
	return calls
}

func (s *Steps) registerHeart(h *heart) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hearts[h] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hearts, h)
	}
}

func (s *Steps) acquireTurn(ctx context.Context) error {
	s.countDue(1)
	defer s.countDue(-1)
	select {
	case s.sending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Steps) releaseTurn() { <-s.sending }

func (s *Steps) countDue(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due += n
}

func (s *Steps) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due == 0 && len(s.sending) < cap(s.sending)
}

// reserveSpare reserves a heartbeat for new details and returns the time until it may be sent. ok is false
// if that is not within the given time.
func (s *Steps) reserveSpare(within time.Duration) (wait time.Duration, ok bool) {
	r := s.spares.Reserve()
	if wait = r.Delay(); wait >= within {
		r.Cancel()
		return 0, false
	}
	return wait, true
}

// Run performs an attempt at the step of a launch: it runs do, which assembles and performs the
// step. If the step still runs in this process, because its earlier attempt timed out while the
// server or this machine was busy, Run lets it continue as the new attempt instead.
func Run[R any](ctx context.Context, p Process, launch string, do func(context.Context, *Attempt) (R, error)) (R, error) {
	if p.Steps == nil {
		p.Steps = NewSteps()
	}
	token := activity.GetInfo(ctx).WorkflowExecution.RunID + "-" + launch
	for {
		if p.Steps.refusesNew(token) {
			var zero R
			return zero, applicationError(errLagging, classOf(errLagging))
		}
		r, started := p.Steps.findOrStart(ctx, p, token, func(ctx context.Context, a *Attempt) (any, error) { return do(ctx, a) })
		if begins, ok := ctx.Value(beginKey{}).(func()); ok && started {
			begins()
		}
		over, err := r.followAs(ctx)
		switch {
		case err != nil:
			var zero R
			return zero, err
		case over && (started || !isFenced(r.err)):
			result, _ := r.result.(R)
			return result, r.err
		}
		// The step ended as an earlier attempt: start it again.
	}
}

// beginKey is the context key of the function passed to Beginning.
type beginKey struct{}

// Beginning returns a context in which Run calls begins when it starts a step. Run does not call it
// if it refuses the attempt or if the step already runs in this process.
func Beginning(ctx context.Context, begins func()) context.Context {
	return context.WithValue(ctx, beginKey{}, begins)
}

// errLagging is returned for an attempt that arrives while the heartbeats of this process are late.
var errLagging = errors.New("the heartbeats of this worker are late: it takes no more steps until they are not")

// refusesNew reports whether this process refuses an attempt at the step with a token: its heartbeats
// are late, and the step does not run here yet.
func (s *Steps) refusesNew(token string) bool {
	s.mu.Lock()
	_, here := s.running[token]
	s.mu.Unlock()
	return !here && s.Lagging()
}

func (s *Steps) findOrStart(ctx context.Context, p Process, token string, do func(context.Context, *Attempt) (any, error)) (r *running, started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.running[token]; ok {
		activity.GetLogger(ctx).Info("the step still runs here; it continues as this attempt", "token", token)
		return r, false
	}
	stepCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	a := newAttempt(stepCtx, p, token)
	r = &running{heart: a.heart, cancel: cancel, done: make(chan struct{})}
	s.running[token] = r
	go func() {
		// These run from the last to the first: done is closed when the result is set and the token is free.
		defer close(r.done)
		defer cancel(nil)
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, token)
		}()
		defer func() {
			// The SDK recovers only panics in the activity's own goroutine.
			if v := recover(); v != nil { //nolint:forbidigo // a bug in one step must not end the others
				r.err = applicationError(fmt.Errorf("the step panicked: %v\n%s", v, debug.Stack()), step.Class{Type: activities.Internal}, a.Failure())
			}
		}()
		r.result, r.err = do(stepCtx, a)
	}()
	return r, true
}

// followAs makes the activity of ctx the step's current attempt and waits for the end of the step.
// over is false if the step was already ending. It returns an error if ctx ends first or another
// attempt takes over the step.
func (r *running) followAs(ctx context.Context) (over bool, err error) {
	t, ok := r.heart.attachTask(activity.GetInfo(ctx).TaskToken)
	if !ok {
		select {
		case <-r.done:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	detach := context.AfterFunc(ctx, func() {
		r.heart.endStep(context.Cause(ctx))
		r.cancel(context.Cause(ctx))
	})
	defer detach()
	select {
	case <-r.done:
		return true, nil
	case <-t.over:
	}
	select {
	case <-r.done: // its result may still be in time
		return true, nil
	default:
		return false, applicationError(errFenced, classOf(errFenced))
	}
}

func isFenced(err error) bool {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && application.Type() == step.Fenced
}

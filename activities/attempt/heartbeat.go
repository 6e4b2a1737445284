package attempt

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/time/rate"

	"conclave/engine/coordination"
	"conclave/engine/step"
)

// HeartbeatTimeout is the default time without heartbeats after which the server gives a step to
// another worker. The worker that prepares a run may set another.
const HeartbeatTimeout = 30 * time.Second

// adoptionTime is how long a step whose attempt timed out waits for its next attempt. It exceeds
// the longest delay between two attempts.
const adoptionTime = 2 * time.Minute

func beatInterval(timeout time.Duration) time.Duration { return timeout / 4 }

// Causes of the cancellation of a step's context.
var (
	errFenced  = errors.New("no heartbeat was acknowledged for too long: another attempt may be running")
	errStopped = errors.New("the worker is shutting down")
)

// details is the state in a step's heartbeats that the next attempt and the Web UI need.
type details struct {
	// Fruitless counts consecutive attempts without progress, including this one.
	Fruitless int `json:"fruitless"`
	Failure
	Last string `json:"last,omitempty"` // kind of the last journal entry

	// Began is when the first attempt started; zero unless the step's time is limited.
	Began  time.Time `json:"began,omitzero"`
	Outage *outage   `json:"away,omitempty"`  // nil while the model's server replies
	Marked time.Time `json:"marked,omitzero"` // the beginning of the outage that is stored

	Lacking time.Time `json:"lacking,omitzero"` // when a worker first lacked something of the step

	Told bool `json:"told,omitempty"` // the workflow takes the model to be in an outage
	// Replied is set once the model's server has replied during this launch of the step.
	Replied bool `json:"replied,omitempty"`

	// Cut counts the requests to the model that lost their replies and are in no usage yet.
	Cut int64 `json:"cut,omitempty"`

	// Called is set from the end of an attempt that has died in a model call, as far as its heartbeats tell,
	// until an attempt has read the journal.
	Called bool `json:"called,omitempty"`

	Doing *coordination.Doing `json:"doing,omitempty"` // replaced as a whole, never changed
	Said  string              `json:"said,omitempty"`  // the end of an unfinished reply
}

// previousDetails returns the details of the preceding attempts. Details in another format are those of
// another version, and counting starts again.
func previousDetails(ctx context.Context) details {
	var d details
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &d)
	}
	if d.Doing != nil && d.Doing.Kind == coordination.CallsModel {
		d.Cut++
		d.Called = true
	}
	d.Doing, d.Said = nil, "" // belong to the previous attempt
	return d
}

// MayRepeatPaidCall reports whether the attempt before that of ctx died during a model call.
func MayRepeatPaidCall(ctx context.Context) bool {
	var d details
	if !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, &d) != nil {
		return false
	}
	return d.Doing != nil && d.Doing.Kind == coordination.CallsModel
}

// heart sends heartbeats while a step runs and fences it off: the step may have effects only while
// a recent heartbeat is acknowledged. A late acknowledgement lifts the fence. If the server gives
// up the attempt, the step waits for the next one.
type heart struct {
	steps   *Steps
	timeout time.Duration
	grace   time.Duration // for the call of a step whose worker stops
	beat    func(ctx context.Context, taskToken []byte, d details) error

	// pending reports whether the server still wants the step's result.
	pending func(context.Context) (bool, error)

	dirty  chan struct{} // capacity 1: the details have changed
	turned chan struct{} // the same, for watchModel
	spares *rate.Limiter // limits heartbeats that are sent only for new details

	spread    func(time.Duration) time.Duration // as in Process
	reporting chan struct{}                     // capacity 1: a ModelReport is being sent

	mu      sync.Mutex
	details details
	call    *coordination.Doing     // the present call of a model or a tool; nil between calls
	drains  bool                    // the worker stops: no further call begins
	cancel  context.CancelCauseFunc // cancels the step's context; nil before the step runs
	ended   error                   // cause of the end of that context
	task    *task                   // nil after the server gave up the attempt
	acked   time.Time               // when the last acknowledged report was sent

	awayAfter time.Duration // 0: outages are not reported
	replying  bool          // the server has begun to reply to the last call
	changed   chan struct{} // closed when task or acked changes
}

// task identifies an attempt to the server.
type task struct {
	token []byte
	over  chan struct{} // closed when the step no longer belongs to it
}

func newHeart(steps *Steps, timeout time.Duration, d details) *heart {
	return &heart{
		steps: steps, timeout: timeout, details: d, changed: make(chan struct{}), acked: time.Now(),
		dirty: make(chan struct{}, 1), turned: make(chan struct{}, 1), spares: rate.NewLimiter(stepSpareRate, stepSpareBurst),
		spread: rand.N[time.Duration], reporting: make(chan struct{}, 1),
		pending: func(context.Context) (bool, error) { return true, nil },
	}
}

// startHeart starts the heartbeats and returns the step's context. stop ends the heartbeats and
// waits for their goroutines.
func (a *Attempt) startHeart(ctx context.Context) (stepCtx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := a.heart
	h.mu.Lock()
	h.details, h.cancel = a.details, cancel
	if h.ended != nil {
		cancel(h.ended)
	}
	h.mu.Unlock()
	leave := a.process.Steps.registerHeart(h)
	stopping := activity.GetWorkerStopChannel(ctx)
	var all sync.WaitGroup
	all.Go(func() { h.sendBeats(ctx) })
	all.Go(func() { a.watchModel(ctx) })
	all.Go(func() {
		select {
		case <-stopping:
			h.endAfterCall(ctx)
		case <-ctx.Done():
		}
	})
	return context.WithValue(ctx, heartKey{}, h), func() { cancel(nil); all.Wait(); leave() }
}

// endAfterCall ends a step whose worker stops, after its present call, at the latest after the grace.
func (h *heart) endAfterCall(ctx context.Context) {
	h.mu.Lock()
	h.drains = true
	h.mu.Unlock()
	if h.grace > 0 {
		select {
		case <-time.After(h.grace):
		case <-ctx.Done():
		}
	}
	h.endStep(errStopped)
}

// admitsCall reports whether another call may begin. If the worker stops, the step ends instead.
func (h *heart) admitsCall() bool {
	h.mu.Lock()
	drains := h.drains
	h.mu.Unlock()
	if drains {
		h.endStep(errStopped)
	}
	return !drains
}

// attachTask gives the step a task, whose heartbeat timeout starts now. ok is false if the step is
// ending.
func (h *heart) attachTask(token []byte) (t *task, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return nil, false
	}
	if h.task != nil {
		close(h.task.over)
	}
	h.task, h.acked = &task{token: token, over: make(chan struct{})}, time.Now()
	h.wakeWaiters()
	return h.task, true
}

// loseTask removes the task t from the step, unless another one has replaced it.
func (h *heart) loseTask(t *task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.task != t {
		return
	}
	close(t.over)
	h.task = nil
	h.wakeWaiters()
}

// wakeWaiters notifies the waiters of a change. The caller holds the lock.
func (h *heart) wakeWaiters() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *heart) endStep(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if temporal.IsCanceledError(cause) {
		cause = context.Canceled
	}
	if h.ended == nil {
		h.ended = cause
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// firstBeat is the time from the start of a step to its first heartbeat. By then its first details are known.
const firstBeat = time.Millisecond / 2

// sendBeats sends heartbeats until the step's context ends: one at once, then one whenever it is due.
// After a change of the details it sends one earlier, with all changes of the gathering time, if
// the rate limits allow it and no due heartbeat of another step waits.
func (h *heart) sendBeats(ctx context.Context) {
	due := time.Now()
	next := due
	timer := time.NewTimer(firstBeat)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-h.dirty:
			if next.Before(due) {
				continue
			}
			left := time.Until(due)
			if wait, ok := h.reserveSpare(left); ok {
				wait = min(max(wait, gathering), left)
				next = time.Now().Add(wait)
				timer.Reset(wait)
			}
			continue
		case <-timer.C:
			select {
			case <-h.dirty: // this heartbeat has the new details
			default:
			}
		}
		now := time.Now()
		if !now.Before(due) || h.steps.isIdle() {
			due = now.Add(h.sendBeat(ctx))
			next = due
		} else {
			next = now.Add(min(busyPause, due.Sub(now)))
		}
		timer.Reset(time.Until(next))
	}
}

// reserveSpare reserves an early heartbeat for changed details and returns the time until it may be sent.
// ok is false if that is not within the given time.
func (h *heart) reserveSpare(within time.Duration) (wait time.Duration, ok bool) {
	own := h.spares.Reserve()
	if own.Delay() < within {
		if wait, ok = h.steps.reserveSpare(within); ok {
			return max(wait, own.Delay()), true
		}
	}
	own.Cancel()
	return 0, false
}

func (h *heart) sendBeat(ctx context.Context) time.Duration {
	every := beatInterval(h.timeout)
	again := every / 3
	h.mu.Lock()
	t := h.task
	h.mu.Unlock()
	if t == nil {
		if wanted, err := h.pending(ctx); err == nil && !wanted {
			h.endStep(errFenced)
		}
		return again
	}
	if h.steps.acquireTurn(ctx) != nil {
		return again
	}
	defer h.steps.releaseTurn()
	limited, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	err := h.reportDetails(limited)
	switch {
	case err == nil:
		return every - h.spread(every/10)
	case ctx.Err() != nil:
	case step.Wraps[*serviceerror.NotFound](err):
		h.loseTask(t)
		return 0 // ask whether the step is wanted
	case endCause(err) != nil:
		h.endStep(endCause(err))
	}
	return again
}

func (h *heart) reportDetails(ctx context.Context) error {
	// The server restarts the heartbeat timeout when it receives the report. This process may be
	// suspended before it reads the reply, so acked is the time before sending.
	sent := time.Now()
	h.mu.Lock()
	t, d := h.task, h.details
	h.mu.Unlock()
	if t == nil {
		return nil
	}
	if err := h.beat(ctx, t.token, d); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.task == t {
		h.acked = sent
		h.wakeWaiters()
	}
	return nil
}

// awaitFence blocks while the step is fenced off: until the server acknowledges a heartbeat or starts
// the next attempt. It returns the cause of ctx, or errFenced if no attempt started in time.
func (h *heart) awaitFence(ctx context.Context) error {
	var patience <-chan time.Time
	for {
		fenced, lost, changed := h.isFenced()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !fenced:
			return nil
		case lost && patience == nil:
			patience = time.After(adoptionTime)
		case !lost:
			patience = nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-patience:
			return errFenced
		}
	}
}

func (h *heart) currentDetails() details {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.details
}

// updateDetails changes the details, schedules a heartbeat, and returns the new details.
func (h *heart) updateDetails(change func(*details)) details {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.details)
	for _, mark := range []chan struct{}{h.dirty, h.turned} {
		select {
		case mark <- struct{}{}:
		default: // a mark is there already
		}
	}
	return h.details
}

func endCause(err error) error {
	switch {
	case temporal.IsCanceledError(err):
		return context.Canceled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return err
	default:
		return nil
	}
}

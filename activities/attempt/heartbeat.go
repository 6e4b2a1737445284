package attempt

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// Timing of heartbeats.
const (
	// HeartbeatTimeout is after how much silence the server gives a step to
	// another worker.
	HeartbeatTimeout = 30 * time.Second

	heartbeatInterval = 5 * time.Second

	// fenceAfter is when an attempt that nobody acknowledges stops itself: before
	// the server may have started the next one.
	fenceAfter = HeartbeatTimeout * 8 / 10
)

// Causes with which a step's context ends.
var (
	errFenced  = errors.New("no heartbeat was acknowledged for too long: another attempt may be running")
	errStopped = errors.New("the worker is shutting down")
)

// details are a step's heartbeat details: the state that the next attempt and the
// Web UI need.
type details struct {
	// Fruitless counts attempts in a row, this one included, without progress.
	Fruitless int `json:"fruitless"`
	Failure
	Last string `json:"last,omitempty"` // kind of the last journal entry

	// Began is when the first attempt began; zero unless the step's time is limited.
	Began   time.Time `json:"began,omitzero"`
	Waiting string    `json:"waiting,omitempty"` // why the attempt is waiting at the moment, for people
}

// previous returns the details of the attempts before this one. Details of another
// shape are another version's: counting starts again.
func previous(ctx context.Context) details {
	var d details
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &d)
	}
	d.Waiting = "" // the attempt before was waiting
	return d
}

// heartKey is the key of a step's heart in its context.
type heartKey struct{}

// Waiting puts the reason for waiting into the heartbeats of the step of ctx, until
// over is called. Outside of a step it does nothing.
func Waiting(ctx context.Context, why string) (over func()) {
	h, ok := ctx.Value(heartKey{}).(*heart)
	if !ok {
		return func() {}
	}
	h.update(func(d *details) { d.Waiting = why })
	return func() { h.update(func(d *details) { d.Waiting = "" }) }
}

// heart beats while a step runs, and ends the step's context when the server
// wishes it, when the worker stops, or when it has not been heard for too long.
type heart struct {
	beat   func(ctx context.Context, d details) error
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	details details
	heard   time.Time // when the last acknowledged report was sent
}

// newHeart makes a heart that was heard just now: the server counts from the
// attempt's start.
func newHeart(d details, cancel context.CancelCauseFunc, beat func(context.Context, details) error) *heart {
	return &heart{beat: beat, cancel: cancel, details: d, heard: time.Now()}
}

// startHeart begins to beat. It returns the step's context; stop ends the beating
// and waits for its goroutine.
func (a *Attempt) startHeart(ctx context.Context) (stepCtx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	token := activity.GetInfo(ctx).TaskToken
	a.heart = newHeart(a.details, cancel, func(ctx context.Context, d details) error {
		return a.process.Heartbeat(ctx, token, d)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.heart.run(ctx, activity.GetWorkerStopChannel(ctx))
	}()
	return context.WithValue(ctx, heartKey{}, a.heart), func() { cancel(nil); <-done }
}

func (h *heart) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		err := h.report(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case unwanted(err) != nil:
			h.cancel(unwanted(err))
			return
		case h.alive() != nil:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-stop:
			h.cancel(errStopped)
			return
		case <-tick.C:
		}
	}
}

// report sends the details; an unanswered call ends before the next one is due.
func (h *heart) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatInterval)
	defer cancel()
	// The server counts from when it was told. Its answer may lie unread while
	// the process is stopped.
	sent := time.Now()
	if err := h.beat(ctx, h.current()); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = sent
	return nil
}

// alive is the fence: it ends the step when the last acknowledged report is too
// long ago, whether or not the ticker has found out.
func (h *heart) alive() error {
	h.mu.Lock()
	heard := h.heard
	h.mu.Unlock()
	if silence(heard, time.Now()) <= fenceAfter {
		return nil
	}
	h.cancel(errFenced)
	return errFenced
}

// silence is the time between two readings of the clock, the time that the
// machine slept included: the monotonic clock stands still meanwhile, the wall
// clock does not, but that one can be set back.
func silence(heard, now time.Time) time.Duration {
	return max(now.Sub(heard), now.Round(0).Sub(heard.Round(0)))
}

func (h *heart) current() details {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.details
}

// update changes the details and returns them.
func (h *heart) update(change func(*details)) details {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.details)
	return h.details
}

// unwanted translates the server's answers that end an attempt into the cause
// of its context; nil for an answer, or a silence, that does not.
func unwanted(err error) error {
	var missing *serviceerror.NotFound
	switch {
	case temporal.IsCanceledError(err):
		return context.Canceled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return err
	case errors.As(err, &missing):
		return errFenced
	default:
		return nil
	}
}

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
	// HeartbeatTimeout is the silence after which the server gives a step to another
	// worker.
	HeartbeatTimeout = 30 * time.Second

	heartbeatInterval = 5 * time.Second

	// fenceAfter is the silence after which an attempt stops itself, before the server
	// may have started the next one.
	fenceAfter = HeartbeatTimeout * 8 / 10
)

// Causes for which a step's context ends.
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
	Outage  *outage   `json:"away,omitempty"`    // nil while the model's server replies
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

// heart heartbeats while a step runs. It ends the step's context when the server
// demands it, when the worker stops, or when the server has been silent for too long.
type heart struct {
	beat   func(ctx context.Context, d details) error
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	details details
	acked   time.Time // when the last acknowledged report was sent
}

// newHeart returns a heart that counts as acknowledged now: the server counts from
// the attempt's start.
func newHeart(d details, cancel context.CancelCauseFunc, beat func(context.Context, details) error) *heart {
	return &heart{beat: beat, cancel: cancel, details: d, acked: time.Now()}
}

// startHeart begins to heartbeat. It returns the step's context; stop ends the
// heartbeats and waits for their goroutine.
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
		case endCause(err) != nil:
			h.cancel(endCause(err))
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
	// The server counts from the report's arrival. Its answer may remain unread while
	// the process is suspended.
	sent := time.Now()
	if err := h.beat(ctx, h.current()); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = sent
	return nil
}

// alive is the fence: it ends the step when the last acknowledged report is too
// old, even if the ticker has not fired yet.
func (h *heart) alive() error {
	h.mu.Lock()
	acked := h.acked
	h.mu.Unlock()
	if silence(acked, time.Now()) <= fenceAfter {
		return nil
	}
	h.cancel(errFenced)
	return errFenced
}

// silence returns the time between two readings of the clock, including time that the
// machine slept: the monotonic clock stops then, and the wall clock can be set back.
func silence(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
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

// endCause translates a server's answer that ends an attempt into the cause of its
// context; nil for any other.
func endCause(err error) error {
	switch {
	case temporal.IsCanceledError(err):
		return context.Canceled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return err
	case is[*serviceerror.NotFound](err):
		return errFenced
	default:
		return nil
	}
}

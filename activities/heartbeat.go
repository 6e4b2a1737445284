package activities

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

// vitals are the heartbeat details of a step: what the next attempt and the Web
// UI should know of this one.
type vitals struct {
	// Fruitless counts attempts, this one included, that ended without progress.
	Fruitless int `json:"fruitless"`
	StepFailure
	Last string `json:"last,omitempty"` // kind of the last journal entry
}

// heart beats while a step runs, and ends the step's context when the server
// wishes it, when the worker stops, or when it has not been heard for too long.
type heart struct {
	beat   func(ctx context.Context, v vitals) error
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	vitals vitals
}

// startHeart begins to beat. The context it returns is the step's; stop ends
// the beating and waits for it.
func (a *Activities) startHeart(ctx context.Context, v vitals) (*heart, context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	token := activity.GetInfo(ctx).TaskToken
	h := &heart{vitals: v, cancel: cancel}
	h.beat = func(ctx context.Context, v vitals) error { return a.Heartbeat(ctx, token, v) }
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.run(ctx, activity.GetWorkerStopChannel(ctx))
	}()
	return h, ctx, func() { cancel(nil); <-done }
}

func (h *heart) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	heard := time.Now()
	for {
		err := h.report(ctx)
		switch {
		case err == nil:
			heard = time.Now()
		case ctx.Err() != nil:
			return
		case unwanted(err) != nil:
			h.cancel(unwanted(err))
			return
		case time.Since(heard) > fenceAfter:
			h.cancel(errFenced)
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

// report sends the vitals; an unanswered call ends before the next one is due.
func (h *heart) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatInterval)
	defer cancel()
	return h.beat(ctx, h.read())
}

func (h *heart) read() vitals {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.vitals
}

func (h *heart) write(change func(*vitals)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.vitals)
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

package attempt

import (
	"context"
	"time"
)

// fenceAfter is the time without acknowledgement after which a step may have no effects. It ends
// before the server can start another attempt.
func fenceAfter(timeout time.Duration) time.Duration { return timeout * 8 / 10 }

// lagAfter is the time without acknowledgement after which a worker accepts no more steps.
func lagAfter(timeout time.Duration) time.Duration { return interval(timeout) * 3 / 2 }

// fenced reports whether the step is fenced off, and whether the server has given up its attempt.
// changed is closed when either may have changed.
func (h *heart) fenced() (fenced, lost bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost = h.task == nil
	return lost || silence(h.acked, time.Now()) > fenceAfter(h.timeout), lost, h.changed
}

// fence returns a context that is cancelled as soon as the step is fenced off.
func (h *heart) fence(ctx context.Context) (fenced context.Context, stop context.CancelFunc) {
	fenced, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			down, _, changed := h.fenced()
			if down {
				cancel(errFenced)
				return
			}
			h.mu.Lock()
			left := fenceAfter(h.timeout) - silence(h.acked, time.Now())
			h.mu.Unlock()
			select {
			case <-fenced.Done():
				return
			case <-changed:
			case <-time.After(left + time.Millisecond):
			}
		}
	}()
	return fenced, func() { cancel(nil) }
}

// late reports whether the server has acknowledged no heartbeat for longer than lagAfter.
func (h *heart) late(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.task != nil && silence(h.acked, now) > lagAfter(h.timeout)
}

// silence returns the time between two readings of the clock, including time in which the machine
// was suspended: the monotonic clock stops then, and the wall clock can be set back.
func silence(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

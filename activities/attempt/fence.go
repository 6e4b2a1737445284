package attempt

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"go.temporal.io/sdk/activity"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
	"conclave/engine/text"
)

// fenceAfter is the time without acknowledgement after which a step may have no effects. It ends
// before the server can start another attempt.
func fenceAfter(timeout time.Duration) time.Duration { return timeout * 8 / 10 }

// lagAfter is the time without acknowledgement after which a worker accepts no more steps.
func lagAfter(timeout time.Duration) time.Duration { return beatInterval(timeout) * 3 / 2 }

// isFenced reports whether the step is fenced off, and whether the server has given up its attempt.
// changed is closed when either may have changed.
func (h *heart) isFenced() (fenced, lost bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost = h.task == nil
	return lost || timeBetween(h.acked, time.Now()) > fenceAfter(h.timeout), lost, h.changed
}

func (h *heart) fenceContext(ctx context.Context) (fenced context.Context, stop context.CancelFunc) {
	fenced, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			down, _, changed := h.isFenced()
			if down {
				cancel(errFenced)
				return
			}
			h.mu.Lock()
			left := fenceAfter(h.timeout) - timeBetween(h.acked, time.Now())
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

// isLate reports whether the server has acknowledged no heartbeat for longer than lagAfter.
func (h *heart) isLate(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.task != nil && timeBetween(h.acked, now) > lagAfter(h.timeout)
}

// timeBetween returns the time between two readings of the clock, including time in which the machine
// was suspended: the monotonic clock stops then, and the wall clock can be set back.
func timeBetween(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Ended is the end of a step as recorded by its workflow.
type Ended struct {
	Token     string               `json:"token"`
	Suspended bool                 `json:"suspended,omitempty"` // the step will be resumed
	Cause     coordination.Failure `json:"cause,omitzero"`      // why the step was given up
	AwaySince time.Time            `json:"away_since,omitzero"` // copied from the step's launch
}

// Reckon completes the record of a step whose activity did not report its end: the step was
// cancelled while it waited for its next attempt, its worker was lost, or an operator ended it. It
// stores the partial work and returns the number and the usage of the step, and the answers that an
// update showed it. The Token is empty if there is no journal to resume from, and no commit to take over.
func (p Process) Reckon(ctx context.Context, s step.Spec, e Ended) (Failure, error) {
	defer activities.Beat(ctx)()
	ports := step.Ports{Store: p.Store, Now: p.Now, Redact: p.Redact}
	s.Token = e.Token
	r, err := step.Recover(ctx, ports, s)
	switch {
	case step.Wraps[*artifact.MalformedError](err):
		activity.GetLogger(ctx).Warn("the usage of a step is incomplete", "token", e.Token, "error", err)
	case err != nil && !errors.Is(err, artifact.ErrNotFound):
		return Failure{}, err
	}
	if e.Suspended {
		err = recordSuspended(ctx, ports, s, r)
	} else {
		err = step.Abandon(ctx, ports, s, r, artifact.Error(e.Cause))
	}
	found := Failure{Step: r.Step, Usage: r.Usage, Seen: coordination.SeenOf(r.Seen)}
	if len(r.Transcript) > 0 {
		found.Token = e.Token
	}
	if e.Suspended && r.Commit.Kind != "" { // the step that goes on takes the action and its number
		found.Token, found.Step = e.Token, 0
	}
	if err == nil {
		found.AwaySince, err = p.awaySince(ctx, s, r.Usage.ModelCalls, e.AwaySince)
	}
	return found, err
}

// CheckAlive implements step.Lease.
func (a *Attempt) CheckAlive(ctx context.Context) error { return a.heart.awaitFence(ctx) }

// FenceTools implements step.Lease.
func (a *Attempt) FenceTools(ctx context.Context) (context.Context, context.CancelFunc) {
	return a.heart.fenceContext(ctx)
}

// bellTimeout bounds the read of the doorbell at a safe point.
const bellTimeout = 2 * time.Second

// doorbell reads the memo of a step's workflow. It is not safe for concurrent use.
type doorbell struct {
	read     func(ctx context.Context, workflowID, runID string) (coordination.Ring, error)
	workflow workflow.Execution
	cancel   func() // ends the step

	last coordination.Ring
}

// readRing reads the doorbell at a safe point: before each model call and before an action is
// committed. It never fails; if the server does not answer, it returns the previous ring.
func (d *doorbell) readRing(ctx context.Context) (coordination.Ring, error) {
	limited, stop := context.WithTimeout(ctx, bellTimeout)
	defer stop()
	bell, err := d.read(limited, d.workflow.ID, d.workflow.RunID)
	switch {
	case temporal.IsCanceledError(err):
		d.cancel() // the next heartbeat would tell, too, but perhaps only after a call
	case err != nil:
		activity.GetLogger(ctx).Debug("the doorbell could not be read; nothing is new until the next look", "error", err)
		return d.last, nil
	}
	d.last = bell
	return bell, nil
}

// maxSaid bounds the part of an unfinished reply in a heartbeat, in bytes.
const maxSaid = 3 << 10

func (a *Attempt) noteHeard(reply string) {
	said := lastWords(reply, a.process.Redact)
	a.heart.updateDetails(func(d *details) {
		if h := a.heart; h.call != nil {
			d.Said = said
		}
	})
}

// lastWords returns the redacted end of an unfinished text. It omits the last word, which may be
// the beginning of a secret.
func lastWords(reply string, redact func([]byte) []byte) string {
	whole := strings.LastIndexFunc(reply, unicode.IsSpace) + 1
	said := []byte(reply[:whole])
	if redact != nil {
		said = redact(said)
	}
	if over := len(said) - maxSaid; over > 0 {
		said = said[over:]
	}
	return text.Terminal(strings.ToValidUTF8(string(said), ""))
}

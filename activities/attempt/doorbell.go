package attempt

import (
	"context"
	"strings"
	"time"
	"unicode"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/text"
)

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

package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
)

// recordEvery is how long accepted actions of a long wave wait for the ledger.
const recordEvery = 5 * time.Second

// record writes what was accepted, one Record at a time: when a wave has ended,
// or when the last one is some time ago.
func (s *session) record() {
	due := len(s.running) == 0 || workflow.Now(s.ctx).Sub(s.recordedAt) >= recordEvery
	if s.recording != nil || len(s.unrecorded) == 0 || !due {
		return
	}
	s.recording = s.startRecord(s.ctx)
}

// flush writes all that is left and waits for it. A session ends after that.
func (s *session) flush(ctx workflow.Context) error {
	if s.recording != nil {
		// What it was to write is repeated below if it failed.
		_ = s.recording.Get(ctx, nil)
		s.recording = nil
	}
	return s.startRecord(ctx).Get(ctx, nil)
}

func (s *session) startRecord(ctx workflow.Context) workflow.Future {
	input := activities.RecordInput{Session: s.id, Entries: s.unrecorded, Status: s.stateNow()}
	for _, e := range s.core.Timeline() {
		if e.Seq > s.recorded {
			input.Events = append(input.Events, e)
			s.recorded = e.Seq
		}
	}
	s.unrecorded = nil
	s.recordedAt = workflow.Now(s.ctx)
	ctx = bookkeeping(ctx, "write the ledger")
	return workflow.ExecuteActivity(ctx, activities.RecordName, input)
}

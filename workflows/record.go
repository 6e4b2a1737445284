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
		s.wrote(s.recording.Get(ctx, nil))
	}
	return s.startRecord(ctx).Get(ctx, nil)
}

func (s *session) startRecord(ctx workflow.Context) workflow.Future {
	input := activities.RecordInput{Session: s.id, Entries: s.unrecorded, Status: s.stateNow()}
	// The query may be large, and is in session.json.
	input.Status.Query = ""
	for _, e := range s.core.Timeline() {
		if e.Seq > s.recorded {
			input.Events = append(input.Events, e)
		}
	}
	s.writing, s.unrecorded = input, nil
	s.recordedAt = workflow.Now(s.ctx)
	ctx = bookkeeping(ctx, "write the ledger")
	return workflow.ExecuteActivity(ctx, activities.RecordName, input)
}

// wrote notes how the Record under way ended. What it did not write belongs to
// the next one.
func (s *session) wrote(err error) {
	s.recording = nil
	if err != nil {
		workflow.GetLogger(s.ctx).Error("writing the ledger failed; the next record repeats it", "error", err)
		s.unrecorded = append(s.writing.Entries, s.unrecorded...)
		return
	}
	for _, e := range s.writing.Events {
		s.recorded = e.Seq
	}
}

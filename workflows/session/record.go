package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// recordEvery is how long what was accepted in a long wave waits for the ledger.
const recordEvery = 5 * time.Second

// books is what has happened and is not on record yet.
type books struct {
	entries []coordination.Accepted
	events  []coordination.Entry
	told    int // number of the last event taken from the core

	recording workflow.Future  // the Record under way, nil for none
	writing   acts.RecordInput // what it, or the last one, is to write

	round   int             // the wave that the last Record began in
	overdue workflow.Future // fires when a long wave's entries have waited enough; nil if nothing waits
	calm    func()          // stops it
	due     bool            // it has fired, or something cannot wait for it
	over    bool            // the session ends with the next Record
}

// enter keeps a ledger entry. What a person said is due at once: running steps
// read it from the store.
func (b *books) enter(entry coordination.Accepted) {
	b.entries = append(b.entries, entry)
	if entry.Action == coordination.Say {
		b.due = true
	}
}

// record writes what was accepted, one Record at a time: per wave, within a
// long wave every few seconds, and at once what is due.
func (s *session) record() {
	b := &s.books
	switch {
	case b.recording != nil || len(b.entries) == 0 && !b.due:
	case b.due || b.round != s.core.Round:
		// What is under way is finished also when the session is cancelled: two
		// Records at once would write over one another.
		ctx, _ := workflow.NewDisconnectedContext(s.ctx)
		b.recording = s.startRecord(ctx)
	case b.overdue == nil:
		ctx, cancel := workflow.WithCancel(s.ctx)
		b.overdue = workflow.NewTimerWithOptions(ctx, recordEvery, workflow.TimerOptions{Summary: "until the ledger is written"})
		b.calm = cancel
	}
}

// flush writes all that is left and waits for it. If over, the session ends
// after that; otherwise it goes on in another run.
func (s *session) flush(ctx workflow.Context, over bool) error {
	if s.books.recording != nil {
		s.wrote(s.books.recording.Get(ctx, nil))
	}
	s.books.over = over
	return s.startRecord(ctx).Get(ctx, nil)
}

func (s *session) startRecord(ctx workflow.Context) workflow.Future {
	b := &s.books
	if b.calm != nil {
		b.calm()
	}
	b.overdue, b.calm, b.due, b.round = nil, nil, false, s.core.Round
	b.writing = acts.RecordInput{Session: s.id, Entries: b.entries, Events: b.events, Status: s.stateNow(), Over: b.over}
	// The query may be large, and is in session.json.
	b.writing.Status.Query = ""
	b.entries, b.events = nil, nil
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write the ledger"), acts.RecordName, b.writing)
}

// wrote notes how the Record under way ended. What it did not write belongs to
// the next one.
func (s *session) wrote(err error) {
	b := &s.books
	b.recording = nil
	if err != nil {
		workflow.GetLogger(s.ctx).Error("writing the ledger failed; the next record repeats it", "error", err)
		b.entries = append(b.writing.Entries, b.entries...)
		b.events = append(b.writing.Events, b.events...)
	}
}

// take keeps the core's new events until they are recorded: the core itself
// remembers only the newest.
func (s *session) take() {
	for _, e := range s.core.Timeline() {
		if e.Seq > s.books.told {
			s.books.events = append(s.books.events, e)
			s.books.told = e.Seq
		}
	}
}

package session

import (
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// recordEvery bounds the time until an entry of a long wave is recorded.
const recordEvery = 5 * time.Second

// ledger has the entries and events that are not yet on record.
type ledger struct {
	recorder drive.Recorder
	entries  []coordination.Accepted
	events   []coordination.Entry
	results  []coordination.ToolResult // results of the caller's tools
	last     int                       // number of the last event collected from the core

	writing acts.RecordInput // the newest record

	round   int             // round in which the newest record started
	overdue workflow.Future // fires recordEvery after the first waiting entry; nil without one
	stop    func()          // stops that timer
	due     bool            // write a record at once
	over    bool            // the session ends with the next record
}

// enter adds a ledger entry. A message is due immediately, because running steps read it.
func (l *ledger) enter(entry coordination.Accepted) {
	l.entries = append(l.entries, entry)
	if entry.Action == coordination.Say {
		l.due = true
	}
}

// collect stamps the new events of the core with the time and copies them, because the core keeps
// only the newest events.
func (l *ledger) collect(ctx workflow.Context, core *coordination.State) {
	core.Stamp(artifact.Timestamp(workflow.Now(ctx)))
	for _, e := range core.Timeline() {
		if e.Seq > l.last {
			l.events = append(l.events, e)
			l.last = e.Seq
		}
	}
}

// record writes the entries of a wave at the end of the wave or after recordEvery, or immediately
// if they are due.
func (s *session) record() {
	l := &s.ledger
	switch {
	case l.recorder.Writing() || len(l.entries) == 0 && !l.due:
	case l.due || l.round != s.core.Round:
		l.recorder.Write(s.ctx, s)
	case l.overdue == nil:
		ctx, cancel := workflow.WithCancel(s.ctx)
		l.overdue = workflow.NewTimerWithOptions(ctx, recordEvery, workflow.TimerOptions{Summary: "until the ledger is written"})
		l.stop = cancel
	}
}

// flush writes everything that is not yet on record. over is true for the last record of the
// session.
func (s *session) flush(ctx workflow.Context, over bool) error {
	s.ledger.over = over
	return s.ledger.recorder.Flush(ctx, s)
}

// StartRecord starts the activity that writes the new entries. It is part of drive.Recorder's
// history.
func (s *session) StartRecord(ctx workflow.Context) workflow.Future {
	l := &s.ledger
	if l.stop != nil {
		l.stop()
	}
	l.overdue, l.stop, l.due, l.round = nil, nil, false, s.core.Round
	l.writing = acts.RecordInput{Session: s.id, Team: s.prepared.Team, Entries: l.entries, Events: l.events, Results: l.results, Status: s.glance(), Over: l.over, Seal: s.prepared.Seal}
	if l.over {
		l.writing.Saved = s.saved(l.last)
	}
	l.entries, l.events, l.results = nil, nil, nil
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write the ledger"), registered.Record, l.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (s *session) Recorded(ctx workflow.Context, written workflow.Future) error {
	err := written.Get(ctx, nil)
	if err != nil {
		l := &s.ledger
		l.entries = append(l.writing.Entries, l.entries...)
		l.events = append(l.writing.Events, l.events...)
		l.results = append(l.writing.Results, l.results...)
	}
	return err
}

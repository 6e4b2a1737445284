package session

import (
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// memo is what the memo was last set to.
type memo struct {
	status, winner string
	round          int
	paused         bool
	parked         string
	epoch          int  // of the bell
	known          bool // the session ID is told
}

// tell makes the memo say what the session's status is, and rings the doorbell
// in it. Each change is one event of the history, so nothing is written twice.
// The session ID is told once the directory is ours: until then it may be
// another session's.
func (s *session) tell(ctx workflow.Context, status string) {
	next := memo{status: status, known: s.begun}
	if s.begun {
		view := s.core.View()
		next.round, next.winner = s.core.Round, s.core.Decision().WinnerLabel
		next.paused, next.epoch = view.Paused, s.bell.Epoch
		if view.Parked != nil {
			next.parked = text.Truncate(*view.Parked, drive.MaxMemoParked)
		}
	}
	if s.memo == next {
		return
	}
	values := s.changes(next)
	s.memo = next
	if err := workflow.UpsertMemo(ctx, values); err != nil {
		workflow.GetLogger(ctx).Error("the memo could not be set", "error", err)
	}
}

// changes are the fields of the memo that next makes different.
func (s *session) changes(next memo) map[string]any {
	was, values := s.memo, map[string]any{}
	if next.status != was.status || next.round != was.round || next.winner != was.winner {
		values[drive.MemoStatus], values[MemoRound], values[MemoWinner] = next.status, next.round, next.winner
	}
	if was == (memo{}) {
		values[drive.MemoQuery] = text.Truncate(s.in.Query, drive.MaxMemoText)
	}
	first := next.known && !was.known
	if first {
		values[MemoSession], values[drive.MemoOffline] = s.id, s.prepared.Offline
	}
	// What the run before left must not stay.
	if first || next.paused != was.paused || next.parked != was.parked {
		values[drive.MemoPaused], values[drive.MemoParked] = next.paused, next.parked
	}
	if next.epoch != was.epoch {
		values[drive.MemoDoorbell] = s.bell
	}
	return values
}

// memoStatus is the session's status in one word for a list of sessions.
func (s *session) memoStatus() string {
	status := s.status()
	if status != drive.Running || !s.begun {
		return status
	}
	switch view := s.core.View(); {
	case view.Paused:
		return drive.Paused
	case view.Parked != nil:
		return drive.Parked
	}
	return drive.Running
}

// bellOf converts a ring to the doorbell that running steps read.
func bellOf(r coordination.Ring) step.Bell {
	bell := step.Bell{Epoch: r.Epoch, Earlier: r.Earlier, Directive: step.Directive(r.Directive)}
	for _, shown := range r.Answers {
		bell.Answers = append(bell.Answers, step.BellAnswer(shown))
	}
	for _, m := range r.Messages {
		bell.Messages = append(bell.Messages, step.BellMessage(m))
	}
	return bell
}

package workflows

import (
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Cuts of texts of which the memo has only the gist, in bytes.
const (
	gistInMemo   = 200 // of the query
	parkedInMemo = 500
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
			next.parked = text.Truncate(*view.Parked, parkedInMemo)
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
		values[MemoStatus], values[MemoRound], values[MemoWinner] = next.status, next.round, next.winner
	}
	if was == (memo{}) {
		values[MemoQuery] = text.Truncate(s.in.Query, gistInMemo)
	}
	first := next.known && !was.known
	if first {
		values[MemoSession], values[MemoOffline] = s.id, s.prepared.Offline
	}
	// What the run before left must not stay.
	if first && s.core.Protocol > 1 || next.paused != was.paused || next.parked != was.parked {
		values[MemoPaused], values[MemoParked] = next.paused, next.parked
	}
	if next.epoch != was.epoch {
		values[MemoDoorbell] = s.bell
	}
	return values
}

// memoStatus is the session's status in one word for a list of sessions.
func (s *session) memoStatus() string {
	status := s.status()
	if status != Running || !s.begun {
		return status
	}
	switch view := s.core.View(); {
	case view.Paused:
		return Paused
	case view.Parked != nil:
		return Parked
	}
	return Running
}

// bellOf is the doorbell as running steps read it.
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

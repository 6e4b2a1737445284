package session

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// worn reports whether the history has grown so long that the session should go
// on in a new run. A step under way would be lost by that, so it is asked
// between steps, before the next one is launched; a held session is as good.
func (s *session) worn() bool {
	return len(s.running) == 0 && workflow.GetInfo(s.ctx).GetContinueAsNewSuggested()
}

// continueAsNew hands the session over to a new run, with everything that was
// asked of it: signals that nobody has taken would stay behind, and updates that
// come while the records are written have stepped the core.
func (s *session) continueAsNew() error {
	if err := s.flush(s.ctx, false); err != nil {
		return s.orCancelled(err)
	}
	s.hearAll()
	s.take()
	in := s.in
	in.SessionID = s.id
	in.Continued = &Continued{
		Core: s.core, Prepared: s.prepared, Recorded: s.books.told - len(s.books.events),
		SecondsLeft: int(s.timeLeft() / time.Second), Warned: s.clock.warned,
	}
	return workflow.NewContinueAsNewError(s.ctx, Workflow, in)
}

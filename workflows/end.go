package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// Ends that the core knows nothing of.
const cancelled = "cancelled"

// end presents the decision and completes the session.
func (s *session) end() (SessionResult, error) {
	d := *s.decision
	view := s.core.View()
	result := SessionResult{
		SessionID: s.id, Status: string(d.Status), Winner: d.Winner, WinnerLabel: d.WinnerLabel,
		Votes: make(map[string]int, len(d.Votes)), Rounds: view.Round, Cost: view.Cost,
	}
	for _, count := range d.Votes {
		result.Votes[count.Target] = count.Votes
	}
	if d.Winner == "" {
		result.Error = noAnswer(view)
	} else {
		var p activities.Presented
		ctx := bookkeeping(s.ctx, "place the final answer of "+d.WinnerLabel)
		input := activities.PresentInput{Session: s.id, Decision: d}
		if err := workflow.ExecuteActivity(ctx, activities.PresentName, input).Get(ctx, &p); err != nil {
			return SessionResult{}, s.orCancelled(err)
		}
		result.Answer, result.AnswerTruncated, result.AnswerPath = p.Answer, p.Truncated, &p.Path
	}
	s.show()
	if err := s.flush(s.ctx); err != nil {
		return SessionResult{}, s.orCancelled(err)
	}
	return result, nil
}

// noAnswer collects why nobody answered.
func noAnswer(v coordination.View) *artifact.Error {
	var causes []string
	for _, a := range v.Agents {
		if a.Error != nil {
			causes = append(causes, fmt.Sprintf("%s: %s: %s", a.ID, a.Error.Type, a.Error.Message))
		}
	}
	if len(causes) == 0 {
		causes = append(causes, "the session ended before any agent had an answer")
	}
	return &artifact.Error{Type: "NoAnswer", Message: strings.Join(causes, "; ")}
}

// orCancelled ends a session that was cancelled while it was ending.
func (s *session) orCancelled(err error) error {
	if s.ctx.Err() != nil {
		return s.cancelled()
	}
	return err
}

// cancelled keeps what was accepted and ends the session as cancelled.
func (s *session) cancelled() error {
	ctx, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	s.memo.set(ctx, s.id, s.in.Query, cancelled, s.core)
	if s.core != nil {
		if err := s.flush(ctx); err != nil {
			workflow.GetLogger(ctx).Error("the ledger of the cancelled session is incomplete", "error", err)
		}
	}
	return s.ctx.Err()
}

// unprepared ends a session that could not begin.
func (s *session) unprepared(err error) error {
	if s.ctx.Err() != nil {
		return s.cancelled()
	}
	s.memo.set(s.ctx, s.id, s.in.Query, string(coordination.FailedAll), nil)
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return temporal.NewNonRetryableApplicationError(application.Message(), application.Type(), nil)
	}
	return err
}

// worn reports whether the history has grown so long that the session should go
// on in a new run. A step under way would be lost by that, so it is asked
// between waves, before the next one is launched.
func (s *session) worn() bool {
	return len(s.running) == 0 && workflow.GetInfo(s.ctx).GetContinueAsNewSuggested()
}

// continueAsNew hands the session over to a new run.
func (s *session) continueAsNew() error {
	for s.finish.ReceiveAsync(nil) {
		s.core.Step(coordination.Finish{})
	}
	if err := s.flush(s.ctx); err != nil {
		return s.orCancelled(err)
	}
	in := s.in
	in.SessionID = s.id
	in.Continued = &Continued{
		Core: s.core, Prepared: s.prepared, Recorded: s.recorded,
		SecondsLeft: int(max(0, s.deadline.Sub(workflow.Now(s.ctx))) / time.Second),
	}
	return workflow.NewContinueAsNewError(s.ctx, Session, in)
}

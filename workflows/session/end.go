package session

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

func (s *session) endDecided(ctx workflow.Context) (Result, error) {
	s.awaitCancelled(ctx)
	d := *s.decision
	result := s.sessionResult()
	if d.Winner != "" || d.Final != nil {
		var p acts.Presented
		final := finalOf(d)
		ctx := workflows.Bookkeeping(ctx, "write the final answer, "+final.Label)
		input := acts.PresentInput{Session: s.id, Decision: d}
		if err := workflow.ExecuteActivity(ctx, registered.Present, input).Get(ctx, &p); err != nil {
			return Result{}, err
		}
		result.Answer, result.AnswerTruncated, result.AnswerPath, result.Data = p.Answer, p.Truncated, &p.Path, p.Data
		if final.Path = p.Path; d.Winner != "" { // nobody has decided for the best answer of a failed session
			s.final = final
		}
	}
	s.showProgress()
	answered := result.Winner != "" && result.Status != string(coordination.Undecided)
	// Before it is on record: the worker of a command that ends with the session delivers it.
	s.teller.TellEnd(s.ctx, result.Status, result.Answer, result.Error, workflows.EndTypes(answered, result.Status == string(coordination.OverSpent))...)
	s.searchIndex().End(ctx, result.Status, result.Winner, result.Cost)
	if err := s.flushRecords(ctx, true); err != nil {
		return Result{}, err
	}
	decided := s.core.DecidedAt()
	if decided.IsZero() {
		decided = workflow.Now(ctx)
	}
	result.DurationSeconds = s.ageAt(ctx, decided)
	return result, nil
}

// ageAt returns the time since the creation of the session, in seconds.
func (s *session) ageAt(ctx workflow.Context, now time.Time) float64 {
	created := s.prepared.CreatedAt
	if created.IsZero() {
		created = workflow.GetInfo(ctx).WorkflowStartTime
	}
	return artifact.SecondsBetween(created, now)
}

// sessionResult leaves the text of the answer out.
func (s *session) sessionResult() Result {
	view := s.core.View()
	r := Result{
		SessionID: s.id, Status: s.currentStatus(), Votes: view.Votes, Rounds: view.Round, Cost: view.Cost, Reported: view.Reported,
		Rejections: view.Cost.Rejections,
		Voters:     view.Voters(), Agents: countMembers(view), Failed: view.Failed(), Error: s.failureReason(), NoShell: s.prepared.NoShell,
	}
	if d := s.decision; d != nil {
		r.Winner, r.WinnerLabel, r.Tie, r.Earlier = d.Winner, d.WinnerLabel, d.Tied, d.Earlier
		r.DecidedBy, r.Support, r.Cut = d.DecidedBy(), d.Support, d.Cut
		if agent, label := d.PresentedBy(); agent != "" {
			r.PresentedBy, r.FinalLabel = &agent, &label
		}
		r.Voters = append([]string{}, d.Voters...)
		r.Votes = make(map[string]int, len(d.Votes))
		for _, count := range d.Votes {
			r.Votes[count.Target] = count.Votes
		}
	}
	return r
}

func countMembers(v coordination.View) int {
	n := 0
	for _, a := range v.Agents {
		if !a.Absent {
			n++
		}
	}
	return n
}

func (s *session) failureReason() *artifact.Error {
	if s.decision == nil || s.decision.Status != coordination.FailedAll {
		return nil
	}
	return whyFailed(*s.decision, s.core.View())
}

// finalOf returns the final answer of a decision: the presented answer or, if none was presented,
// the winning one; that of a failed session is the best one.
func finalOf(d coordination.Decision) *acts.FinalAnswer {
	if d.Final != nil {
		return &acts.FinalAnswer{Agent: d.Final.Agent, Label: d.Final.Label}
	}
	return &acts.FinalAnswer{Agent: d.Winner, Label: d.WinnerLabel}
}

func whyFailed(d coordination.Decision, v coordination.View) *artifact.Error {
	var agents, causes []string
	for _, a := range v.Agents {
		if a.Error != nil {
			agents, causes = append(agents, a.ID), append(causes, a.Error.Type+": "+a.Error.Message)
		}
	}
	why := &artifact.Error{Type: string(d.Cause), Message: coordination.Together(agents, causes, ": ")}
	switch {
	case d.Split():
		why.Message = "every vote is fresh, no answer has the majority, and on_split is fail"
	case d.TooFew():
		why.Message = "fewer agents than orchestrator.min_active_agents are left to vote: " + why.Message
	case d.NoCaller():
		why.Message = "the caller did not return the results of its tools in time: allow more with timeout_settings.client_tools_timeout_seconds"
	case why.Message == "":
		why.Message = whyEmpty(d, v)
	}
	return why
}

// whyEmpty explains why a session has neither answers nor failures, with the remedy.
func whyEmpty(d coordination.Decision, v coordination.View) string {
	switch d.Asked {
	case coordination.Timeout:
		return "the session's time ran out before any agent had an answer: give it more with timeout_settings.orchestrator_timeout_seconds"
	case coordination.OverSpent:
		return "the session's budget ran out before any agent had an answer: give it more with orchestrator.budget"
	case coordination.Limit:
		return "every agent used up its steps before it had an answer: allow more with orchestrator.max_steps_per_agent"
	case coordination.Finished:
		return "a decision was asked for before any agent had an answer"
	}
	var stops []string
	for _, a := range v.Agents {
		if a.Stop != nil {
			stops = append(stops, fmt.Sprintf("%s stopped, %s: %s", a.ID, a.Stop.Status, a.Stop.Summary))
		}
	}
	if len(stops) > 0 {
		return "no agent gave an answer: " + strings.Join(stops, "; ")
	}
	return "the session ended before any agent had an answer"
}

// endCancelled ends a cancelled session, even if the store is unavailable. The session ends as
// cancelled, unless it had a decision before the cancellation.
func (s *session) endCancelled() (Result, error) {
	ctx, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	if s.core == nil {
		s.setMemo(ctx, workflows.Cancelled)
		return Result{}, s.ctx.Err()
	}
	if s.decision != nil {
		return s.endInTime(ctx)
	}
	s.core.Step(coordination.CancelRequested{})
	s.carryOut(s.core.Drain())
	s.awaitCancelled(ctx)
	s.setMemo(ctx, workflows.Cancelled)
	s.searchIndex().End(ctx, workflows.Cancelled, "", s.core.View().Cost)
	workflows.FlushInTime(ctx, func(ctx workflow.Context) error { return s.flushRecords(ctx, true) })
	return Result{}, s.canceledError(ctx)
}

// endInTime completes a decided session unless the store is unavailable.
func (s *session) endInTime(ctx workflow.Context) (result Result, err error) {
	written := workflows.FlushInTime(ctx, func(ctx workflow.Context) error {
		result, err = s.endDecided(ctx)
		return err
	})
	if written {
		return result, nil
	}
	s.setMemo(ctx, workflows.Cancelled)
	return Result{}, s.canceledError(ctx)
}

func (s *session) canceledError(ctx workflow.Context) error {
	result := s.sessionResult()
	result.Status, result.DurationSeconds = workflows.Cancelled, s.ageAt(ctx, workflow.Now(ctx))
	return workflows.CanceledError(result.Cost, result)
}

func (s *session) awaitCancelled(ctx workflow.Context) {
	workflows.AwaitCancelled(ctx, func(selector workflow.Selector) bool { return s.selectSteps(ctx, selector) },
		func() bool { return s.reckonLost(ctx) })
	s.ledger.collectEvents(s.ctx, s.core)
}

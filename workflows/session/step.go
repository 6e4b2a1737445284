package session

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/workflows/drive"
)

// running is a step that has not ended.
type running struct {
	launch coordination.Launch
	future workflow.Future
	cancel workflow.CancelFunc

	// cancelled is true once the core has cancelled the step, whose error then means a suspension.
	// suspended is true if the step will be resumed.
	cancelled, suspended bool

	silent  attempt.ModelReport
	silence workflow.Future // when the call of silent counts as an outage; nil without one

	reckoning *drive.Reckoning // nil unless the step has ended without reporting it
}

func (s *session) launch(l coordination.Launch) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = drive.Step(ctx, fmt.Sprintf("%s-%s", l.Agent, l.ID), launchSummary(l), time.Duration(s.prepared.TimeoutSeconds)*time.Second, s.prepared.HeartbeatTimeoutSeconds)
	input := acts.StepInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l, Checks: s.core.Config.Ballot != ""}
	s.running = append(s.running, running{
		launch: l, cancel: cancel,
		future: workflow.ExecuteActivity(ctx, registered.RunStep, input),
	})
}

// launchSummary describes a step in the event list of the Web UI.
func launchSummary(l coordination.Launch) string {
	who := fmt.Sprintf("%s (agent%d) · round %d · ", l.Agent, l.Number, l.Round)
	if l.ResumeFrom != "" {
		who += "resumed · "
	}
	switch l.Purpose {
	case coordination.Present:
		return who + "presents the final answer"
	case coordination.Evaluate:
		return who + "judges the final answer"
	case coordination.Evaluation:
		return who + "its newest answer is evaluated"
	case coordination.Coordinate:
	}
	if len(l.Shown) == 0 {
		return who + "first answer"
	}
	who += "sees"
	for i, shown := range l.Shown {
		if i == 8 { // a summary holds 400 bytes
			return who + fmt.Sprintf(" and %d more", len(l.Shown)-i)
		}
		who += " " + shown.Label
	}
	return who
}

func (s *session) cancelStep(c coordination.Cancel) {
	for i := range s.running {
		if r := &s.running[i]; r.launch.ID == c.ID {
			r.cancelled, r.suspended = true, c.Suspend
			r.cancel()
		}
	}
}

// selectSteps adds the ends of running steps to the selector. It reports whether there are any.
func (s *session) selectSteps(ctx workflow.Context, selector workflow.Selector) bool {
	for _, r := range s.running {
		if r.reckoning != nil {
			selector.AddFuture(r.reckoning.Future, func(workflow.Future) { s.over(r.launch.ID, r.reckoning.End(ctx)) })
			continue
		}
		selector.AddFuture(r.future, func(f workflow.Future) { s.ended(ctx, r.launch.ID, f) })
	}
	return len(s.running) > 0
}

// ended passes the end of a step to the core, or starts its reckoning if the end was not reported.
func (s *session) ended(ctx workflow.Context, id coordination.LaunchID, f workflow.Future) {
	r := &s.running[s.indexOf(id)]
	var result acts.StepResult
	failure := drive.Await(ctx, f, string(id), r.cancelled, &result, func() string { return result.Token })
	switch {
	case failure == nil:
		s.forget(id)
		s.core.Step(resultEvent(id, result))
	case failure.Unreported:
		s.reckon(ctx, r, *failure)
	default:
		s.over(id, *failure)
	}
}

// reckon starts the reckoning of a step that ended without a report.
func (s *session) reckon(ctx workflow.Context, r *running, f drive.Failure) {
	l := r.launch
	input := acts.ReckonInput{
		Session: s.id, Ended: f.Ended(r.suspended && f.Suspended, l.AwaySince),
		Launch: coordination.Launch{ID: l.ID, Agent: l.Agent, Number: l.Number, Round: l.Round, After: l.After, Purpose: l.Purpose, Offered: l.Offered},
	}
	r.reckoning = drive.Reckon(ctx, f, l.Agent, registered.Reckon, input)
}

// reckonLost starts the reckoning of cancelled steps that have not ended in time, and reports
// whether any reckoning is running.
func (s *session) reckonLost(ctx workflow.Context) bool {
	for i := range s.running {
		if r := &s.running[i]; r.reckoning == nil {
			s.reckon(ctx, r, drive.Lost(ctx, string(r.launch.ID)))
		}
	}
	return true
}

// over passes the end of a step without a result to the core.
func (s *session) over(id coordination.LaunchID, f drive.Failure) {
	s.forget(id)
	end := coordination.End{Launch: id, Step: f.Step, Usage: f.Usage, Told: f.Seen, AwaySince: f.AwaySince, LongestCall: f.LongestCall}
	if f.Suspended {
		s.core.Step(coordination.Suspended{End: end, Token: f.Token})
		return
	}
	s.core.Step(coordination.Failed{End: end, Cause: f.Cause, Token: f.Token, Outage: f.Outage})
}

func (s *session) indexOf(id coordination.LaunchID) int {
	return slices.IndexFunc(s.running, func(r running) bool { return r.launch.ID == id })
}

func (s *session) forget(id coordination.LaunchID) {
	i := s.indexOf(id)
	s.running = slices.Delete(s.running, i, i+1)
}

// resultEvent converts the result of a step to an event.
func resultEvent(id coordination.LaunchID, r acts.StepResult) coordination.Event {
	end := coordination.End{Launch: id, Step: r.Step, Usage: r.Usage, LongestCall: r.LongestCall}
	if r.Ended != "" {
		end.Told = r.Seen
	}
	switch r.Ended {
	case loop.EndAwaiting:
		return coordination.Awaiting{End: end, Token: r.Token, Calls: r.Calls}
	case loop.EndRestart:
		return coordination.Restarted{End: end, Token: r.Token}
	case loop.EndAllowance:
		return coordination.Exhausted{End: end, Token: r.Token}
	}
	switch r.Action {
	case coordination.Vote:
		return coordination.Voted{End: end, Target: r.Target, TargetLabel: r.TargetLabel, Reason: r.Reason, Seen: r.Seen, Heard: r.Heard, Confidence: r.Confidence}
	case coordination.Stop:
		return coordination.Stopped{End: end, Status: r.Status, Summary: r.Summary, Seen: r.Seen, Heard: r.Heard}
	case coordination.SubmitEvaluation:
		c := r.Critique
		return coordination.Critiqued{End: end, Verdict: c.Verdict, Scores: c.Scores, Ceiling: c.Ceiling, Tasks: c.Tasks}
	case coordination.Submit, coordination.RestartTeam:
		return coordination.Evaluated{End: end, Again: r.Action == coordination.RestartTeam, Reason: r.Reason}
	default:
		return coordination.Answered{End: end, Seen: r.Seen, Heard: r.Heard, Digest: r.Digest, Checks: r.Checks}
	}
}

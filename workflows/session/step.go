package session

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
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

	reckoning *workflows.Reckoning // nil unless the step has ended without reporting it
}

func (s *session) launchStep(l coordination.Launch) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = workflows.Step(ctx, fmt.Sprintf("%s-%s", l.Agent, l.ID), launchSummary(l), time.Duration(s.prepared.TimeoutSeconds)*time.Second, s.prepared.HeartbeatTimeoutSeconds)
	input := acts.StepInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l, Checks: s.core.Config.Ballot != ""}
	s.running = append(s.running, running{
		launch: l, cancel: cancel,
		future: workflow.ExecuteActivity(ctx, registered.RunStep, input),
	})
}

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
			selector.AddFuture(r.reckoning.Future, func(workflow.Future) { s.endStep(r.launch.ID, r.reckoning.End(ctx)) })
			continue
		}
		selector.AddFuture(r.future, func(f workflow.Future) { s.receiveEnd(ctx, r.launch.ID, f) })
	}
	return len(s.running) > 0
}

// receiveEnd passes the end of a step to the core, or starts its reckoning if the end was not reported.
func (s *session) receiveEnd(ctx workflow.Context, id coordination.LaunchID, f workflow.Future) {
	r := &s.running[s.indexOf(id)]
	var result acts.StepResult
	failure := workflows.Await(ctx, f, string(id), r.cancelled, &result, func() string { return result.Token })
	switch {
	case failure == nil:
		s.forgetStep(id)
		s.core.Step(result.Event(id))
	case failure.Unreported:
		s.startReckoning(ctx, r, *failure)
	default:
		s.endStep(id, *failure)
	}
}

func (s *session) startReckoning(ctx workflow.Context, r *running, f workflows.Failure) {
	l := r.launch
	input := acts.ReckonInput{
		Session: s.id, Ended: f.Ended(r.suspended && f.Suspended, l.AwaySince),
		Launch: coordination.Launch{ID: l.ID, Agent: l.Agent, Number: l.Number, Round: l.Round, After: l.After, Purpose: l.Purpose, Offered: l.Offered},
	}
	r.reckoning = workflows.Reckon(ctx, f, l.Agent, registered.Reckon, input)
}

// reckonLost starts the reckoning of cancelled steps that have not ended in time, and reports
// whether any reckoning is running.
func (s *session) reckonLost(ctx workflow.Context) bool {
	for i := range s.running {
		if r := &s.running[i]; r.reckoning == nil {
			s.startReckoning(ctx, r, workflows.Lost(ctx, string(r.launch.ID)))
		}
	}
	return true
}

func (s *session) endStep(id coordination.LaunchID, f workflows.Failure) {
	s.forgetStep(id)
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

func (s *session) forgetStep(id coordination.LaunchID) {
	i := s.indexOf(id)
	s.running = slices.Delete(s.running, i, i+1)
}

// selectReports adds the reports of running steps about their models to the selector, and the ends of
// the waits for silent calls.
func (s *session) selectReports(selector workflow.Selector) {
	selector.AddReceive(s.reports, func(c workflow.ReceiveChannel, _ bool) {
		var r attempt.ModelReport
		if c.ReceiveAsync(&r) {
			s.receiveReport(r)
		}
	})
	for _, r := range s.running {
		if r.silence != nil {
			selector.AddFuture(r.silence, func(f workflow.Future) {
				if f.Get(s.ctx, nil) == nil {
					s.receiveReport(r.silent)
				}
			})
		}
	}
}

// receiveReport passes a report to the core; that of a silent call once it has lasted long enough.
func (s *session) receiveReport(r attempt.ModelReport) {
	i := s.indexOf(r.Launch)
	if i < 0 {
		return
	}
	run := &s.running[i]
	run.silence = nil
	if left := coordination.SilentCalls*s.core.LongestCall - r.Silent; r.Out != nil && r.Silent > 0 && left > 0 {
		r.Silent += left
		run.silent = r
		run.silence = workflow.NewTimerWithOptions(s.ctx, time.Duration(left*float64(time.Second)), workflow.TimerOptions{
			Summary: "until a silent call counts as an outage",
		})
		return
	}
	s.core.Step(coordination.ModelReport{Launch: r.Launch, Out: r.Out})
}

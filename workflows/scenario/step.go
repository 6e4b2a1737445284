package scenario

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// Maximum lengths of texts, in bytes.
const (
	maxText = 2000 // a title on the board, the reason of a step without a verdict
	maxLine = 200  // a summary, a text in an event
)

// step is a running step.
type step struct {
	s       *run
	launch  scenario.Launch
	began   time.Time
	cancel  workflow.CancelFunc
	stopped bool
	future  workflow.Future

	reckoning *drive.Reckoning // nil unless the step has ended without reporting it
}

func (s *run) launch(l scenario.Launch) {
	t := &step{s: s, launch: l, began: workflow.Now(s.ctx)}
	if l.ResumeFrom != "" && l.ResumeFrom == s.prepared.Rest {
		s.rest = time.Duration(s.prepared.SpentMS) * time.Millisecond
	}
	left := max(1, s.in.StepTimeoutSeconds-int(s.core.CarriedMS/1000))
	seconds := scenario.Bound(left, l.Limits.Seconds)
	ctx, cancel := workflow.WithCancel(s.ctx)
	t.cancel = cancel
	summary := fmt.Sprintf("step %s · %s", l.Step.ID, l.Step.Title)
	if l.ResumeFrom != "" {
		summary = fmt.Sprintf("step %s · resumed · %s", l.Step.ID, l.Step.Title)
	}
	ctx = drive.Step(ctx, fmt.Sprintf("step-%s-%s", l.Step.ID, l.ID), text.Truncate(summary, maxLine), time.Duration(seconds)*time.Second, s.prepared.HeartbeatTimeoutSeconds)
	if s.host != "" {
		ctx = drive.OnHost(ctx, s.host)
	}
	s.note("step_started", l.Step.ID, "step "+l.Step.ID+" began: "+l.Step.Title)
	s.step = t
	t.future = workflow.ExecuteActivity(ctx, registered.RunScenarioStep, acts.StepInput{
		Scenario: s.prepared.Plan.Slug, Run: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l, TimeoutSeconds: seconds,
	})
}

// stop cancels the step, either permanently or until the core launches it again.
func (t *step) stop() {
	t.stopped = true
	t.cancel()
}

// selectStep adds the end of the running step to the selector. It reports whether a step is
// running.
func (s *run) selectStep(selector workflow.Selector) bool {
	if s.step == nil {
		return false
	}
	if t := s.step; t.reckoning != nil {
		selector.AddFuture(t.reckoning.Future, func(workflow.Future) { t.over(acts.StepResult{}, new(t.reckoning.End(s.ctx))) })
	} else {
		selector.AddFuture(t.future, t.ended)
	}
	return true
}

// spent returns the working time of the step, including the time before it was suspended.
func (t *step) spent() time.Duration {
	return t.s.rest + workflow.Now(t.s.ctx).Sub(t.began)
}

// ended passes the end of the step to the core, or starts its reckoning if the end was not
// reported. A result with neither a verdict nor an error is invalid, because an operator completed
// the activity.
func (t *step) ended(f workflow.Future) {
	var r acts.StepResult
	failure := drive.Await(t.s.ctx, f, t.launch.ID, t.stopped, &r, func() string {
		if r.Status != scenario.Pass && r.Status != scenario.Fail && (r.Status != scenario.Errored || r.Error == nil) {
			return ""
		}
		return r.Token
	})
	if s := t.s; s.host != "" && failure != nil && drive.HostLost(s.ctx, f) {
		s.host, t.stopped, failure.Suspended = "", true, true
	} else if failure == nil {
		s.host = r.Host
	}
	if failure != nil && failure.Unreported {
		t.reckon(*failure)
		return
	}
	t.over(r, failure)
}

// reckon starts the reckoning of a step that ended without a report.
func (t *step) reckon(f drive.Failure) {
	s := t.s
	input := acts.ReckonInput{
		Scenario: s.prepared.Plan.Slug, Run: s.id, Launch: t.launch,
		Ended: f.Ended(t.stopped && f.Suspended && !s.core.HasResult(t.launch.Step.ID), t.launch.AwaySince),
	}
	t.reckoning = drive.Reckon(s.ctx, f, "step "+t.launch.Step.ID, registered.ReckonScenarioStep, input)
}

// reckonLost starts the reckoning of a cancelled step that has not ended in time.
func (s *run) reckonLost() bool {
	if s.step.reckoning == nil {
		s.step.reckon(drive.Lost(s.ctx, s.step.launch.ID))
	}
	return true
}

// over passes the end of the step to the core.
func (t *step) over(r acts.StepResult, failure *drive.Failure) {
	s, id, spent := t.s, t.launch.ID, t.spent()
	result := scenario.Result{Status: r.Status, EvidencePaths: r.Evidence, Error: r.Error, Summary: r.Summary, Warnings: r.Warnings, Cost: r.Usage}
	over := s.core.HasResult(t.launch.Step.ID) // the cancelled run has recorded a result already
	s.step, s.rest = nil, 0
	switch {
	case failure != nil && failure.Suspended:
		s.rest = spent
		s.core.Step(scenario.Suspended{
			Launch: id, Token: failure.Token, Usage: failure.Usage, AwaySince: failure.AwaySince,
			DurationMS: workflow.Now(s.ctx).Sub(t.began).Milliseconds(),
		})
		if !over {
			s.note("suspended", t.launch.Step.ID, "step "+t.launch.Step.ID+" was suspended")
		}
		return
	case failure != nil:
		why := text.Truncate(failure.Cause.Type+": "+failure.Cause.Message+t.launch.Rest(), maxText)
		result = scenario.Result{Status: scenario.Errored, Error: &why, Cost: failure.Usage}
	}
	result.DurationMS = spent.Milliseconds()
	s.core.Step(scenario.Ended{Launch: id, Result: result})
	if over {
		return
	}
	line := fmt.Sprintf("step %s: %s", t.launch.Step.ID, result.Status)
	if result.Error != nil {
		line += ": " + text.Truncate(*result.Error, maxLine)
	}
	s.note("step_ended", t.launch.Step.ID, line)
}

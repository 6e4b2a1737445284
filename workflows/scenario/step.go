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

// maxReason bounds the reason of a step without a verdict, in bytes.
const maxReason = 2000

// step is a running step.
type step struct {
	s       *run
	launch  scenario.Launch
	began   time.Time
	cancel  workflow.CancelFunc
	stopped bool
	future  workflow.Future
}

func (s *run) launch(l scenario.Launch) {
	t := &step{s: s, launch: l, began: workflow.Now(s.ctx)}
	ctx, cancel := workflow.WithCancel(s.ctx)
	t.cancel = cancel
	summary := fmt.Sprintf("step %s · %s", l.Step.ID, l.Step.Title)
	if l.ResumeFrom != "" {
		summary = fmt.Sprintf("step %s · goes on · %s", l.Step.ID, l.Step.Title)
	}
	ctx = drive.Step(ctx, fmt.Sprintf("step-%s-%s", l.Step.ID, l.ID), text.Truncate(summary, drive.MaxMemoText), time.Duration(s.in.StepTimeoutSeconds)*time.Second)
	s.note("step_started", l.Step.ID, "step "+l.Step.ID+" began: "+l.Step.Title)
	s.step = t
	t.future = workflow.ExecuteActivity(ctx, acts.RunStepName, acts.StepInput{
		Scenario: s.prepared.Plan.Slug, Run: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l, TimeoutSeconds: s.in.StepTimeoutSeconds,
	})
}

// stop cancels the step, for good or until the core launches it again.
func (t *step) stop() {
	t.stopped = true
	t.cancel()
}

// selectStep has the selector step the core with the end of the running step, and
// reports whether there is one.
func (s *run) selectStep(selector workflow.Selector) bool {
	if s.step == nil {
		return false
	}
	selector.AddFuture(s.step.future, s.step.ended)
	return true
}

// spent returns the time that the step has taken, including that before a suspension.
func (t *step) spent() time.Duration {
	return t.s.rest + workflow.Now(t.s.ctx).Sub(t.began)
}

// ended steps the core with the end of the step.
func (t *step) ended(f workflow.Future) {
	s := t.s
	event := t.event(f)
	s.step, s.rest = nil, t.spent()
	over := s.core.Over // the run was cancelled
	s.core.Step(event)
	switch e := event.(type) {
	case scenario.Suspended:
		if !over {
			s.note("suspended", t.launch.Step.ID, "step "+t.launch.Step.ID+" was suspended")
		}
		return
	case scenario.Reported:
		s.noteEnd(over, t.launch.Step, e.Status, e.Error)
	case scenario.Broke:
		s.noteEnd(over, t.launch.Step, scenario.Errored, &e.Reason)
	case scenario.Pause, scenario.Resume, scenario.Cancel: // not ends of steps
	}
	s.rest = 0
}

func (s *run) noteEnd(over bool, step scenario.StepRef, status scenario.Status, why *string) {
	if over {
		return
	}
	line := fmt.Sprintf("step %s: %s", step.ID, status)
	if why != nil {
		line += ": " + text.Truncate(*why, drive.MaxMemoText)
	}
	s.note("step_ended", step.ID, line)
}

// event converts the end of the step to an event. A result without a verdict is not the
// step's own.
func (t *step) event(f workflow.Future) scenario.Event {
	id, ms := t.launch.ID, t.spent().Milliseconds()
	var r acts.StepResult
	failure := drive.Await(t.s.ctx, f, string(id), t.stopped, &r, &r.Token)
	if failure == nil && r.Status != scenario.Pass && r.Status != scenario.Fail {
		failure = drive.ByHand(r.Token)
	}
	switch {
	case failure == nil:
		return scenario.Reported{
			Launch: id, Status: r.Status, Evidence: r.Evidence, Error: r.Error, Summary: r.Summary, Warnings: r.Warnings, DurationMS: ms, Usage: r.Usage,
		}
	case failure.Suspended:
		return scenario.Suspended{Launch: id, Token: failure.Token, Usage: failure.Usage}
	}
	return scenario.Broke{
		Launch: id, Token: failure.Token, DurationMS: ms, Usage: failure.Usage,
		Reason: text.Truncate(failure.Cause.Type+": "+failure.Cause.Message, maxReason),
	}
}

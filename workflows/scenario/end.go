package scenario

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows"
)

// endCancelled ends a cancelled run, even if the store is unavailable. The run ends as cancelled,
// unless it had a result before the cancellation.
func (s *run) endCancelled() (acts.Result, error) {
	why := s.ctx.Err()
	ctx, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	if s.core == nil {
		s.memo.Set(s.ctx, map[string]any{workflows.MemoStatus: string(scenario.Cancelled)})
		return acts.Result{}, why
	}
	late := s.over
	if s.core.Refuse(scenario.Cancel{}) == nil {
		s.noteEvent("cancelled", "", "the run was cancelled")
	}
	spent := s.rest
	if s.step != nil {
		spent = s.step.timeSpent()
	}
	s.core.Step(scenario.Cancel{DurationMS: spent.Milliseconds()})
	s.endPause()
	s.carryOut(s.core.Drain())
	workflows.AwaitCancelled(ctx, s.selectStep, s.reckonLost)
	s.cleanUp(ctx)
	s.finishRun(s.core.Status()) // ends a step whose worker is lost
	if !late {
		s.searchIndex().End(ctx, string(scenario.Cancelled), "", s.core.Usage)
	}
	written := workflows.FlushInTime(ctx, func(ctx workflow.Context) error { return s.recorder.Flush(ctx, s) })
	s.showProgress()
	result := s.runResult()
	if late && written {
		return result, nil
	}
	result.Status = scenario.Cancelled
	return acts.Result{}, workflows.CanceledError(result.Cost, result)
}

func (s *run) tellEnd() {
	id, r := s.in.Plan.Slug+"/"+s.id, s.runResult()
	s.teller.Subject = workflows.Subject{ID: id, Question: s.in.Plan.Title, Page: "/scenarios/" + id, URL: s.prepared.URL, Receivers: s.prepared.Notify}
	summary := fmt.Sprintf("%d steps passed", len(r.Steps))
	if r.FailedStep != nil && r.Error != nil {
		summary = "step " + *r.FailedStep + ": " + *r.Error
	}
	s.teller.TellEnd(s.ctx, string(r.Status), summary, nil, workflows.EndTypes(r.Status == scenario.Pass, false)...)
}

// cleanUp runs the steps in Plan.After of a cancelled run.
func (s *run) cleanUp(ctx workflow.Context) {
	if len(s.prepared.Plan.After) == 0 {
		s.carryOut(s.core.Drain())
		return
	}
	s.ctx = ctx
	if t := s.step; t != nil { // the worker of the step is lost
		s.step = nil
		s.core.Step(scenario.Suspended{Launch: t.launch.ID})
	}
	for {
		s.carryOut(s.core.Drain())
		if s.over {
			return
		}
		if s.due && !s.recorder.Writing() {
			s.recorder.Write(ctx, s)
		}
		selector := workflow.NewSelector(ctx)
		s.selectStep(selector)
		s.recorder.Select(ctx, selector, s)
		selector.Select(ctx)
	}
}

// StartRecord starts the activity that writes the new entries. It is part of workflows.Recorder's history.
func (s *run) StartRecord(ctx workflow.Context) workflow.Future {
	s.due = false
	kept := 0
	for kept < len(s.kept) && kept < len(s.core.Results) && isRecorded(s.kept[kept], s.core.Results[kept]) {
		kept++
	}
	s.writing = acts.RecordInput{Result: s.runResult(), Kept: kept, Events: slices.Clone(s.events[s.recorded:])}
	s.writing.Result.Steps = slices.Clone(s.core.Results[kept:])
	s.writing.Messages = slices.Clone(s.messages)
	return workflow.ExecuteActivity(workflows.Bookkeeping(ctx, "write result.json"), registered.RecordScenario, s.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (s *run) Recorded(ctx workflow.Context, written workflow.Future) error {
	var r acts.Recorded
	if err := written.Get(ctx, &r); err != nil {
		s.due = true
		return err
	}
	s.recorded += len(s.writing.Events)
	s.messages = s.messages[len(s.writing.Messages):]
	s.kept = slices.Concat(s.kept[:s.writing.Kept], s.writing.Result.Steps)
	for _, steps := range [][]scenario.Result{s.kept, s.core.Results} {
		for i := range steps {
			if found := r.Evidence[steps[i].ID]; len(found) > 0 {
				steps[i].SetEvidence(found)
			}
		}
	}
	return nil
}

// isRecorded reports whether a result has not changed since it was recorded. A cancelled step reports its
// usage only after its end.
func isRecorded(a, b scenario.Result) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Cost.ModelCalls == b.Cost.ModelCalls
}

func (s *run) endPause() {
	if !s.held.IsZero() {
		s.idle, s.held = s.idle+workflow.Now(s.ctx).Sub(s.held), time.Time{}
	}
}

// workedTime returns the time since this execution started, without pauses.
func (s *run) workedTime(now time.Time) time.Duration {
	if !s.held.IsZero() {
		now = s.held
	}
	return now.Sub(s.begun) - s.idle
}

func (s *run) runResult() acts.Result {
	r := acts.Result{
		RunID: s.id, RunPath: acts.RunPath(s.in.Plan.Slug, s.id), Scenario: s.in.Plan.Slug, Title: s.in.Plan.Title, Status: scenario.Running, StartedAt: artifact.Timestamp(s.begun), Steps: []scenario.Result{},
	}
	until := workflow.Now(s.ctx)
	if s.ended != nil {
		until = *s.ended
		at := artifact.Timestamp(until)
		r.CompletedAt = &at
	}
	r.DurationMS = s.prepared.WorkedMS + s.workedTime(until).Milliseconds()
	if s.core == nil {
		if s.ctx.Err() != nil {
			r.Status = scenario.Cancelled
		}
		return r
	}
	r.RunNumber, r.Title, r.StartedAt, r.Execution = s.prepared.RunNumber, s.prepared.Plan.Title, s.prepared.StartedAt, s.prepared.Execution
	r.Steps, r.Cost, r.Only = slices.Clone(s.core.Results), s.core.Usage, s.prepared.Plan.Only
	r.Paused = s.core.Paused && s.ended == nil
	if s.ended == nil {
		return r
	}
	r.Status = s.core.Status()
	for _, step := range r.Steps {
		if step.Status != scenario.Pass && step.Status != scenario.Skipped {
			r.FailedStep, r.Error = &step.ID, step.Error
			break
		}
	}
	return r
}

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

	reckoning *workflows.Reckoning // nil unless the step has ended without reporting it
}

func (s *run) launchStep(l scenario.Launch) {
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
	ctx = workflows.Step(ctx, fmt.Sprintf("step-%s-%s", l.Step.ID, l.ID), text.Truncate(summary, maxLine), time.Duration(seconds)*time.Second, s.prepared.HeartbeatTimeoutSeconds)
	if s.host != "" {
		ctx = workflows.OnHost(ctx, s.host)
	}
	s.noteEvent("step_started", l.Step.ID, "step "+l.Step.ID+" began: "+l.Step.Title)
	s.step = t
	t.future = workflow.ExecuteActivity(ctx, registered.RunScenarioStep, acts.StepInput{
		Scenario: s.prepared.Plan.Slug, Run: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l, TimeoutSeconds: seconds,
	})
}

// selectStep adds the end of the running step to the selector. It reports whether a step is running.
func (s *run) selectStep(selector workflow.Selector) bool {
	if s.step == nil {
		return false
	}
	if t := s.step; t.reckoning != nil {
		selector.AddFuture(t.reckoning.Future, func(workflow.Future) { t.endStep(acts.StepResult{}, new(t.reckoning.End(s.ctx))) })
	} else {
		selector.AddFuture(t.future, t.receiveEnd)
	}
	return true
}

// timeSpent returns the working time of the step, including the time before it was suspended.
func (t *step) timeSpent() time.Duration {
	return t.s.rest + workflow.Now(t.s.ctx).Sub(t.began)
}

// receiveEnd passes the end of the step to the core, or starts its reckoning if the end was not reported. A
// result with neither a verdict nor an error is invalid, because an operator completed the activity.
func (t *step) receiveEnd(f workflow.Future) {
	var r acts.StepResult
	failure := workflows.Await(t.s.ctx, f, t.launch.ID, t.stopped, &r, func() string {
		if r.Status != scenario.Pass && r.Status != scenario.Fail && (r.Status != scenario.Errored || r.Error == nil) {
			return ""
		}
		return r.Token
	})
	if s := t.s; s.host != "" && failure != nil && workflows.HostLost(s.ctx, f) {
		s.host, t.stopped, failure.Suspended = "", true, true
	} else if failure == nil {
		s.host = r.Host
	}
	if failure != nil && failure.Unreported {
		t.startReckoning(*failure)
		return
	}
	t.endStep(r, failure)
}

func (t *step) startReckoning(f workflows.Failure) {
	s := t.s
	input := acts.ReckonInput{
		Scenario: s.prepared.Plan.Slug, Run: s.id, Launch: t.launch,
		Ended: f.Ended(t.stopped && f.Suspended && !s.core.HasResult(t.launch.Step.ID), t.launch.AwaySince),
	}
	t.reckoning = workflows.Reckon(s.ctx, f, "step "+t.launch.Step.ID, registered.ReckonScenarioStep, input)
}

func (s *run) reckonLost() bool {
	if s.step.reckoning == nil {
		s.step.startReckoning(workflows.Lost(s.ctx, s.step.launch.ID))
	}
	return true
}

func (t *step) endStep(r acts.StepResult, failure *workflows.Failure) {
	s, id, spent := t.s, t.launch.ID, t.timeSpent()
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
			s.noteEvent("suspended", t.launch.Step.ID, "step "+t.launch.Step.ID+" was suspended")
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
	s.noteEvent("step_ended", t.launch.Step.ID, line)
}

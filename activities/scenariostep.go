package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Bounds of what a step's result has, beside its evidence.
const (
	maxTold     = 2000 // bytes of an error or a summary
	maxWarnings = 10
)

// trialRun is one attempt of a scenario's step.
type trialRun struct {
	*stepRun
	in     ScenarioStepInput
	layout artifact.Layout
	marks  *marks
}

// RunScenarioStep runs one step of a scenario, or finds it run, as RunStep does with
// a step of an agent. A verdict is a result, whatever it is; an error says that there
// is none.
func (a *Activities) RunScenarioStep(ctx context.Context, in ScenarioStepInput) (ScenarioStepResult, error) {
	run := a.stepRun(ctx, string(in.Launch.ID))
	run.bell = nil // nothing reaches a step
	if run.vitals.Began.IsZero() {
		run.vitals.Began = a.Now()
	}
	run.limit = time.Duration(in.TimeoutSeconds) * time.Second
	t := &trialRun{stepRun: run, in: in, layout: artifact.InScenario(in.Scenario, in.Run)}
	run.assemble = t.assemble
	itself, err := run.perform(ctx)
	switch {
	case err != nil:
		return ScenarioStepResult{}, t.cleaned(err)
	case itself != nil:
		return ScenarioStepResult{}, itself
	}
	return t.outcome(ctx)
}

// assemble reads what the step is about.
func (t *trialRun) assemble(ctx context.Context) error {
	store := t.ports.Store
	team, err := t.Teams.byHash(ctx, store, t.layout, t.in.ConfigHash)
	if err != nil {
		return err
	}
	agent := team.Agents[0]
	content, err := store.Get(ctx, definitionOf(t.layout, t.in.Launch.Step.File))
	if err != nil {
		return fmt.Errorf("reading the file of step %s: %w", t.in.Launch.Step.ID, err)
	}
	prd, err := readPRD(ctx, store, t.layout)
	if err != nil {
		return err
	}
	if t.marks, err = marksOf(ctx, store, t.layout, prd); err != nil {
		return err
	}
	if err := t.equip(ctx, agent); err != nil {
		return err
	}
	t.marks.on(&t.ports)
	t.witness()
	t.spec = scenarioagent.Step{
		Layout: t.layout, Launch: t.in.Launch, Token: t.token, Attempt: t.attempt, Spent: t.result.Usage, Agent: agent.ID,
		Task: scenarioagent.Task{
			Scenario: t.in.Scenario, Step: t.in.Launch.Step, Content: string(content), Previous: t.in.Launch.Previous,
			Project: scenario.Summary(prd, scenario.SignsIn(string(content))), System: agent.SystemMessage,
		},
	}.Spec()
	return nil
}

// witness puts record_evidence beside the agent's tools.
func (t *trialRun) witness() {
	open, repeatable := t.ports.Tools, t.ports.Repeatable
	t.ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) {
		opened, err := open(ctx, workspace)
		if err != nil {
			return nil, err
		}
		return recorder{
			others: opened, workspace: workspace, store: t.ports.Store, layout: t.layout,
			run: t.in.Run, step: t.in.Launch.Step.ID, marks: t.marks, now: t.Now, read: t.WorkspaceFile,
		}, nil
	}
	// The same evidence recorded twice is there once.
	t.ports.Repeatable = func(tool string) bool {
		return tool == scenario.EvidenceTool || repeatable == nil || repeatable(tool)
	}
}

// outcome translates the commit for the workflow. What the store has is the
// evidence, whatever the agent says.
func (t *trialRun) outcome(ctx context.Context) (ScenarioStepResult, error) {
	commit := t.result.Commit
	commit.Payload = t.marks.report(commit.Payload)
	report, err := scenarioagent.ReadReport(commit)
	if err != nil {
		return ScenarioStepResult{}, invalid(err)
	}
	stored, err := evidenceOf(ctx, t.ports.Store, t.layout, t.in.Launch.Step.ID)
	if err != nil {
		return ScenarioStepResult{}, applicationError(err, classify(err), t.failure())
	}
	evidence, warnings := scenario.Reconcile(report.EvidencePaths, stored)
	result := ScenarioStepResult{
		Token: t.token, Number: t.result.Step, Status: report.Status, Evidence: evidence,
		Summary: text.Truncate(t.marks.clean(report.Summary), maxTold), Usage: t.result.Usage,
	}
	if report.Error != nil {
		text := text.Truncate(t.marks.clean(*report.Error), maxTold)
		result.Error = &text
	}
	for i, w := range warnings {
		if i == maxWarnings {
			result.Warnings = append(result.Warnings, fmt.Sprintf("and %d more", len(warnings)-i))
			break
		}
		result.Warnings = append(result.Warnings, t.marks.clean(w))
	}
	return result, nil
}

// cleaned is the activity's error without credentials: what a server answers may
// have some of what it was sent.
func (t *trialRun) cleaned(err error) error {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || !t.marks.holds(err.Error()) {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(t.marks.clean(application.Message()), application.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: application.NonRetryable(), NextRetryDelay: application.NextRetryDelay(), Category: application.Category(),
		Details: []any{t.failure()},
	})
}

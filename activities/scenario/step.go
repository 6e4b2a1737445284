package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Limits of a step's result.
const (
	maxText     = 2000 // bytes of an error or a summary
	maxWarnings = 10
	maxSaid     = 300 // bytes of the last reply of an agent without a verdict
)

// stepRun is one attempt at a scenario step.
type stepRun struct {
	*attempt.Attempt
	activities *Activities
	in         StepInput
	layout     artifact.Layout
	vault      *text.Vault
	plan       scenario.Plan
	offline    bool
}

// RunScenarioStep runs one step of a scenario, or returns the result of its commit. A failed
// verdict is a result; an error means that there is no verdict.
func (a *Activities) RunScenarioStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, string(in.Launch.ID), func(ctx context.Context, made *attempt.Attempt) (StepResult, error) {
		return (&stepRun{Attempt: made, activities: a, in: in, layout: artifact.InScenario(in.Scenario, in.Run)}).runStep(ctx)
	})
}

func (t *stepRun) runStep(ctx context.Context) (StepResult, error) {
	t.Limit(time.Duration(t.in.TimeoutSeconds) * time.Second)
	ended, err := t.Perform(ctx, t.assembleStep)
	switch {
	case err != nil:
		return StepResult{}, t.explainError(err)
	case ended != nil:
		return t.exhaustedResult(ctx)
	}
	return t.commitResult(ctx)
}

// assembleStep hides the credentials before the step has any text that may contain them.
func (t *stepRun) assembleStep(ctx context.Context) error {
	store := t.Ports.Store
	team, err := t.activities.Teams.ByHash(ctx, store, t.layout, t.in.ConfigHash)
	if err != nil {
		return err
	}
	settled, _, err := activities.SettleShell(ctx, t.activities.Confined, store, t.layout, team.Agents[0])
	if err != nil {
		return err
	}
	agent := settled[0]
	content, err := store.Get(ctx, definitionOf(t.layout, t.in.Launch.Step.File))
	if err != nil {
		return err
	}
	asks, err := scenario.AsksForCredentials(string(content))
	if err != nil {
		return activities.Invalid(err)
	}
	plan, err := artifact.ReadJSON[scenario.Plan](ctx, store, planOf(t.layout))
	if err != nil {
		return err
	}
	project, err := readProject(ctx, store, t.layout)
	if err != nil {
		return err
	}
	if t.vault, err = vaultOf(ctx, store, t.layout, project); err != nil {
		return err
	}
	t.ShareServers = plan.Browser == scenario.BrowserRun
	if t.ShareServers && t.Number == 1 && t.in.Launch.Previous == nil && t.in.Launch.ResumeFrom == "" {
		t.activities.EndShared(t.layout.Root()) // ends the servers of an earlier execution
	}
	t.LimitOutages(time.Duration(team.Timeouts.OutageSeconds)*time.Second, t.in.Launch.AwaySince)
	if err := t.Equip(ctx, agent); err != nil {
		return err
	}
	t.SetRules(team.Orchestrator.Approvals)
	hideCredentials(&t.Ports, t.vault)
	t.Ports.Tools = evidenceTools{t.Ports.Tools, t}
	t.plan, t.offline = plan, agent.Backend.Type == config.Offline
	s := t.agentStep(team)
	s.Content, s.Project = string(content), project.Summary(asks)
	t.Spec = s.Spec()
	return nil
}

func (t *stepRun) agentStep(team config.Team) scenarioagent.Step {
	agent := team.Agents[0]
	s := scenarioagent.Step{
		Layout: t.layout, Launch: t.in.Launch, Token: t.Token, Attempt: t.Number, Spent: t.Result.Usage, Agent: agent.ID,
		Scenario: t.in.Scenario, System: agent.SystemMessage,
		MaxModelCalls: scenario.Bound(team.Orchestrator.MaxModelCallsPerStep, t.in.Launch.Limits.ModelCalls),
		BeginAgain:    t.plan.OnLostTools != scenario.Tell, Browser: t.browserState(), News: t.newMessages,
	}
	if t.plan.RequireEvidence {
		s.Pieces = func(ctx context.Context) (int, error) {
			stored, err := t.storedEvidence(ctx)
			return len(stored), err
		}
	}
	return s
}

func (t *stepRun) sharedDirs() []string {
	if !t.ShareServers {
		return nil
	}
	return t.activities.SharedDirs(t.layout.Root())
}

// browserHost returns the task queue of this process if its browser is to be used by the next step, and ""
// otherwise.
func (t *stepRun) browserHost() string {
	if len(t.sharedDirs()) == 0 || t.activities.Host == nil {
		return ""
	}
	return t.activities.Host()
}

func (t *stepRun) browserState() scenarioagent.Browser {
	switch {
	case !t.ShareServers || t.in.Launch.Previous == nil:
		return scenarioagent.OwnBrowser
	case len(t.sharedDirs()) > 0:
		return scenarioagent.Continued
	}
	return scenarioagent.Renewed
}

func (t *stepRun) storedEvidence(ctx context.Context) ([]string, error) {
	l := t.in.Launch
	return evidenceOf(ctx, t.Ports.Store, t.layout, l.Step.ID, l.Since, l.Attempt)
}

func (t *stepRun) newMessages(ctx context.Context, after int) ([]step.Message, error) {
	bell, err := t.Look(ctx)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, m := range bell.Messages {
		if m.Number > after {
			numbers = append(numbers, m.Number)
		}
	}
	return step.ReadMessages(ctx, t.Ports.Store, t.layout, numbers)
}

// evidenceTools are an agent's tools with the one that records evidence.
type evidenceTools struct {
	step.Toolbox
	run *stepRun
}

func (e evidenceTools) OpenTools(ctx context.Context, workspace string) (step.Tools, error) {
	opened, err := e.Toolbox.OpenTools(ctx, workspace)
	if err != nil {
		return nil, err
	}
	t := e.run
	if err := t.probeBrowser(ctx, opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return recorder{
		others: opened, workspace: workspace, store: t.Ports.Store, layout: t.layout,
		began: t.Began(), shared: t.sharedDirs, run: t.in.Run, step: t.in.Launch.Step.ID, attempt: max(1, t.in.Launch.Attempt), vault: t.vault, now: t.activities.Now, read: t.activities.ReadFile,
	}, nil
}

// Repeatable implements step.Toolbox. Evidence that is recorded again is stored only once.
func (e evidenceTools) Repeatable(tool string) bool {
	return tool == scenario.EvidenceTool || e.Toolbox.Repeatable(tool)
}

// probeBrowser returns a final error if the first step of a run has a browser that cannot show an empty page.
func (t *stepRun) probeBrowser(ctx context.Context, tools step.Tools) error {
	if l := t.in.Launch; t.Number > 1 || l.Previous != nil || l.ResumeFrom != "" {
		return nil
	}
	for _, tool := range tools.Tools() {
		if !scenarioagent.OpensPages(tool.Name) {
			continue
		}
		out, err := tools.Run(ctx, llm.ToolCall{ID: "probe", Name: tool.Name, Arguments: `{"url":"about:blank"}`})
		if err != nil {
			return err
		}
		if out.Failed {
			return temporal.NewNonRetryableApplicationError("the browser of "+scenarioagent.ServerOf(tool.Name)+" does not work: "+
				scenarioagent.FailureLine(out.Text), activities.ToolsUnavailable, nil)
		}
	}
	return nil
}

// commitResult converts the commit for the workflow. It includes only evidence that is stored.
func (t *stepRun) commitResult(ctx context.Context) (StepResult, error) {
	commit := t.Result.Commit
	commit.Payload = []byte(t.vault.RestoreJSON(string(commit.Payload)))
	report, err := scenarioagent.ReadReport(commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	stored, err := t.storedEvidence(ctx)
	if err != nil {
		return StepResult{}, t.Error(err)
	}
	evidence, warnings := reconcileEvidence(report.EvidencePaths, stored)
	result := StepResult{
		Token: t.Token, Number: t.Result.Step, Status: report.Status, Evidence: evidence,
		Summary: text.Truncate(t.vault.Redact(report.Summary), maxText), Usage: t.Result.Usage,
	}
	result.Host = t.browserHost()
	if report.Error != nil {
		result.Error = new(text.Truncate(t.vault.Redact(*report.Error), maxText))
	}
	if report.Status == scenario.Pass {
		warnings = append(t.doubtPass(&result, report.Used), warnings...)
	}
	if report.Broken != "" {
		warnings = append([]string{report.Broken}, warnings...)
		if t.in.Launch.Previous == nil && !report.Browser { // a browser has worked before the step
			result.Status, result.Error = scenario.Errored, new(text.Truncate(t.vault.Redact(report.Broken), maxText))
		}
	}
	for i, w := range warnings {
		if i == maxWarnings {
			result.Warnings = append(result.Warnings, fmt.Sprintf("and %d more", len(warnings)-i))
			break
		}
		result.Warnings = append(result.Warnings, t.vault.Redact(w))
	}
	return result, nil
}

// withoutEvidence is the error of a pass without required evidence.
const withoutEvidence = "the agent reported a pass without evidence, which require_evidence demands"

// doubtPass returns warnings about a pass without evidence or without tool calls. A pass without
// required evidence becomes an error.
func (t *stepRun) doubtPass(r *StepResult, used int) []string {
	var doubts []string
	if used == 0 && !t.offline {
		doubts = append(doubts, "passed without using a tool: the agent may not have tested anything")
	}
	switch {
	case len(r.Evidence) > 0:
	case t.plan.RequireEvidence:
		r.Status, r.Error = scenario.Errored, new(withoutEvidence)
	default:
		doubts = append(doubts, "passed without evidence")
	}
	return doubts
}

func (t *stepRun) exhaustedResult(ctx context.Context) (StepResult, error) {
	t.Leave(ctx)
	evidence, err := t.storedEvidence(ctx)
	if err != nil {
		return StepResult{}, t.Error(err)
	}
	l := t.in.Launch
	return StepResult{
		Token: t.Token, Number: t.Result.Step, Status: scenario.Errored, Evidence: evidence, Usage: t.Result.Usage, Host: t.browserHost(),
		Error: new(fmt.Sprintf("limits.cost_usd: the step has spent its allowance of $%.4g", l.Limits.CostUSD) + l.Rest()),
	}, nil
}

// reconcileEvidence returns the stored paths as evidence, and a warning for each claimed path that is not
// stored.
func reconcileEvidence(claimed, stored []string) (evidence, warnings []string) {
	evidence = append([]string{}, stored...)
	slices.Sort(evidence)
	for _, c := range claimed {
		if !slices.Contains(evidence, c) {
			warnings = append(warnings, fmt.Sprintf("the agent named the evidence %.200q, which does not exist", c))
		}
	}
	return evidence, warnings
}

// explainError returns the activity's error without credentials, which a quoted request might contain.
// If the agent reported no verdict, the error includes the agent's last reply.
func (t *stepRun) explainError(err error) error {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return err
	}
	message := application.Message()
	if said := lastReply(t.Result.Transcript); application.Type() == step.NoAction && said != "" {
		why := fmt.Sprintf("the agent reported no verdict in %d model calls", t.Result.Usage.ModelCalls)
		for _, none := range []string{t.Ports.NoCalls, t.Ports.UnreadCalls} {
			if none != "" && strings.Contains(message, none) {
				why += ": " + none
			}
		}
		message = fmt.Sprintf("%s; it last said: %q", why, text.Truncate(said, maxSaid))
	}
	if message = t.vault.Redact(message); message == application.Message() && t.vault.Redact(err.Error()) == err.Error() {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(message, application.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: application.NonRetryable(), NextRetryDelay: application.NextRetryDelay(), Category: application.Category(),
		Details: []any{t.Failure()},
	})
}

func lastReply(transcript []byte) string {
	said := ""
	for line := range bytes.Lines(transcript) {
		var e loop.Entry
		if json.Unmarshal(line, &e) != nil || e.Kind != loop.Reply {
			continue
		}
		for _, m := range e.Messages {
			said = strings.TrimSpace(m.Content)
		}
	}
	return said
}

// PRDKey returns the key of a run's prd.md. A client may store the file in advance and pass only
// its PRDHash to the workflow, because more people can read histories than the store.
func PRDKey(slug, run string) string { return prdOf(artifact.InScenario(slug, run)) }

// PRDHash returns the hexadecimal SHA-256 of a prd.md.
func PRDHash(prd string) string {
	return artifact.SumOf([]byte(prd))
}

func prdOf(layout artifact.Layout) string { return layout.File("definition/prd.md") }

func definitionOf(layout artifact.Layout, file string) string {
	return layout.File("definition/steps/" + file)
}

func planOf(layout artifact.Layout) string { return layout.File("definition/meta.json") }

func (a *Activities) keepDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	if err := artifact.PutJSON(ctx, a.Store, planOf(layout), in.Plan); err != nil {
		return err
	}
	for _, s := range in.Plan.All() {
		if err := a.Store.Put(ctx, definitionOf(layout, s.File), bytes.NewReader([]byte(in.Files[s.File]))); err != nil {
			return err
		}
	}
	if in.PRDHash != "" {
		return nil
	}
	return a.Store.Put(ctx, prdOf(layout), bytes.NewReader([]byte(in.PRD)))
}

// checkDefinition returns an error for malformed credentials, or if the stored prd.md does not
// match the PRDHash.
func (a *Activities) checkDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	prd := in.PRD
	if in.PRDHash != "" {
		stored, err := a.Store.Get(ctx, prdOf(layout))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return activities.Invalid(fmt.Errorf("there is no prd.md of run %s at %s: start the run with the bucket and prefix of the workers", in.RunID, a.Store.URL(prdOf(layout))))
		case err != nil:
			return err
		case PRDHash(string(stored)) != in.PRDHash:
			return activities.Invalid(fmt.Errorf("%s has changed since run %s was started: start a new run", a.Store.URL(prdOf(layout)), in.RunID))
		}
		prd = string(stored)
	}
	if _, err := scenario.ParseProject(prd); err != nil {
		return activities.Invalid(err)
	}
	for _, s := range in.Plan.All() {
		if _, err := scenario.AsksForCredentials(in.Files[s.File]); err != nil {
			return activities.Invalid(fmt.Errorf("step %s of scenario %s: %w", s.ID, in.Plan.Slug, err))
		}
	}
	return nil
}

// readProject reads the run's prd.md. It returns the zero Project if the file does not exist.
func readProject(ctx context.Context, store artifact.Store, layout artifact.Layout) (scenario.Project, error) {
	prd, err := store.Get(ctx, prdOf(layout))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return scenario.Project{}, err
	}
	return scenario.ParseProject(string(prd))
}

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Scenario string          `json:"scenario"` // the scenario's slug
	Run      string          `json:"run"`
	Launch   scenario.Launch `json:"launch"`
	attempt.Ended
}

// ReckonScenarioStep returns the usage of a step according to the store.
func (a *Activities) ReckonScenarioStep(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	spec := scenarioagent.Step{Layout: artifact.InScenario(in.Scenario, in.Run), Launch: in.Launch, Token: in.Token}.Place()
	return a.Reckon(ctx, spec, in.Ended)
}

package scenario

import (
	"context"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/redact"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
	"conclave/engine/step"
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
	vault      *redact.Vault
	plan       scenario.Plan
	offline    bool
}

// RunScenarioStep runs one step of a scenario, or returns the result of its commit. A failed
// verdict is a result; an error means that there is no verdict.
func (a *Activities) RunScenarioStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, string(in.Launch.ID), func(ctx context.Context, made *attempt.Attempt) (StepResult, error) {
		return (&stepRun{Attempt: made, activities: a, in: in, layout: artifact.InScenario(in.Scenario, in.Run)}).run(ctx)
	})
}

func (t *stepRun) run(ctx context.Context) (StepResult, error) {
	t.Limit(time.Duration(t.in.TimeoutSeconds) * time.Second)
	ended, err := t.Perform(ctx, t.assemble)
	switch {
	case err != nil:
		return StepResult{}, t.explained(err)
	case ended != nil:
		return t.exhausted(ctx)
	}
	return t.outcome(ctx)
}

// assemble reads the step's definition and equips its agent.
func (t *stepRun) assemble(ctx context.Context) error {
	store := t.Ports.Store
	team, err := t.activities.Teams.ByHash(ctx, store, t.layout, t.in.ConfigHash)
	if err != nil {
		return err
	}
	agent := team.Agents[0]
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
		t.activities.Over(t.layout) // ends the servers of an earlier execution
	}
	t.LimitOutages(time.Duration(team.Timeouts.OutageSeconds)*time.Second, t.in.Launch.AwaySince)
	if err := t.Equip(ctx, agent); err != nil {
		return err
	}
	protect(&t.Ports, t.vault)
	t.offerEvidence()
	t.plan, t.offline = plan, agent.Backend.Type == config.Offline
	s := t.step(team)
	s.Content, s.Project = string(content), project.Summary(asks)
	t.Spec = s.Spec()
	return nil
}

// step returns the step of the team's agent, without its texts.
func (t *stepRun) step(team config.Team) scenarioagent.Step {
	agent := team.Agents[0]
	s := scenarioagent.Step{
		Layout: t.layout, Launch: t.in.Launch, Token: t.Token, Attempt: t.Number, Spent: t.Result.Usage, Agent: agent.ID,
		Scenario: t.in.Scenario, System: agent.SystemMessage,
		MaxModelCalls: scenario.Bound(team.Orchestrator.MaxModelCallsPerStep, t.in.Launch.Limits.ModelCalls),
		BeginAgain:    t.plan.OnLostTools != scenario.Tell, Browser: t.browser(),
	}
	if t.plan.RequireEvidence {
		s.Pieces = func(ctx context.Context) (int, error) {
			stored, err := t.evidence(ctx)
			return len(stored), err
		}
	}
	if t.Look != nil {
		s.News = t.news
	}
	return s
}

// sharedDirs returns the directories of the servers that the run's steps share.
func (t *stepRun) sharedDirs() []string {
	if !t.ShareServers || t.activities.SharedDirs == nil {
		return nil
	}
	return t.activities.SharedDirs(t.layout.Root())
}

// host returns the task queue of this process if its browser is to be used by the next step, and ""
// otherwise.
func (t *stepRun) host() string {
	if len(t.sharedDirs()) == 0 || t.activities.Host == nil {
		return ""
	}
	return t.activities.Host()
}

// browser returns the state of a shared browser at the beginning of the step.
func (t *stepRun) browser() scenarioagent.Browser {
	switch {
	case !t.ShareServers || t.in.Launch.Previous == nil:
		return scenarioagent.OwnBrowser
	case len(t.sharedDirs()) > 0:
		return scenarioagent.Continued
	}
	return scenarioagent.Renewed
}

// evidence returns the paths of the stored evidence for the step.
func (t *stepRun) evidence(ctx context.Context) ([]string, error) {
	l := t.in.Launch
	return evidenceOf(ctx, t.Ports.Store, t.layout, l.Step.ID, l.Since, l.Attempt)
}

// news returns the human messages with numbers above after.
func (t *stepRun) news(ctx context.Context, after int) ([]step.Message, error) {
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

func (t *stepRun) offerEvidence() {
	open, repeatable := t.Ports.Tools, t.Ports.Repeatable
	t.Ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) {
		opened, err := open(ctx, workspace)
		if err != nil {
			return nil, err
		}
		return recorder{
			others: opened, workspace: workspace, store: t.Ports.Store, layout: t.layout,
			began: t.Began(), shared: t.sharedDirs, run: t.in.Run, step: t.in.Launch.Step.ID, attempt: max(1, t.in.Launch.Attempt), vault: t.vault, now: t.activities.Now, read: t.activities.ReadFile,
		}, nil
	}
	// Evidence that is recorded again is stored only once.
	t.Ports.Repeatable = func(tool string) bool {
		return tool == scenario.EvidenceTool || repeatable == nil || repeatable(tool)
	}
}

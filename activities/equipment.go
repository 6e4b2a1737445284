package activities

import (
	"context"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Equipment is the teams, models and tools that a worker gives to agents. Its functions
// are called concurrently, at every attempt of a step.
type Equipment struct {
	Teams Teams

	// Model builds an agent's model. Its error is a *LackError when another process
	// may have the key or the provider; any other is a fault of the configuration.
	Model func(config.Agent) (loop.Model, error)

	// Tools opens an agent's ordinary tools on a workspace; the step closes them. Its error
	// is one of Lacks, or a *LackError of type ToolsUnavailable.
	Tools func(ctx context.Context, agent config.Agent, workspace string, s Sharing) (step.Tools, error)

	// SharedDirs returns the directories of a run's shared servers that are connected in
	// this process. A nil SharedDirs returns no directories.
	SharedDirs func(run string) []string

	// EndShared ends the servers that the steps of a run share in this process. A nil
	// EndShared does nothing.
	EndShared func(run string)

	// Lacks returns a *LackError if an agent's tools need an MCP server, a sandbox or a
	// variable that this process lacks. A nil Lacks reports nothing.
	Lacks func(context.Context, config.Agent) error

	// Confine runs a command of a check, confined as agents' commands are.
	Confine func(context.Context, check.Confined) (check.Ended, error)

	// Priced reports whether the price of an agent's model is known. A nil Priced
	// reports false.
	Priced func(config.Agent) bool

	// Window returns the context window of an agent's model in tokens, 0 if unknown.
	// A nil Window returns 0.
	Window func(config.Agent) int

	// NoCalls explains that an agent's model called no tool, and that it wrote calls as text
	// that cannot be read. A nil NoCalls returns "".
	NoCalls func(config.Agent) (none, unread string)

	// Indexed returns the search attributes that the namespace of ctx's activity has. A nil
	// Indexed returns none.
	Indexed func(context.Context) []string

	// Repeatable reports whether a tool call that may have run already can run again
	// without harm. If nil, every call can.
	Repeatable func(tool string) bool
}

// Sharing selects the MCP servers of a step that other steps also use.
type Sharing struct {
	Run string // the key prefix of the run whose steps share servers; empty for none
	All bool   // the steps share all servers, even those of scope step
}

// Over ends everything that the steps of a run share in this process.
func (e Equipment) Over(layout artifact.Layout) {
	if e.EndShared != nil {
		e.EndShared(layout.Root())
	}
}

// Attributes returns the search attributes that the namespace of ctx's activity has, if the
// workflow sets them: in the history of an older one they would add commands to a replay.
func (e Equipment) Attributes(ctx context.Context, index bool) []string {
	if e.Indexed == nil || !index {
		return nil
	}
	return e.Indexed(ctx)
}

// Missing returns the error of Lacks.
func (e Equipment) Missing(ctx context.Context, agent config.Agent) error {
	if e.Lacks == nil {
		return nil
	}
	return e.Lacks(ctx, agent)
}

// Check builds every agent's model and looks up its tools, so that an unusable
// configuration fails before it costs anything. A missing key passes: another worker
// may have it.
func (e Equipment) Check(ctx context.Context, team config.Team) error {
	for _, agent := range team.Models() {
		_, err := e.Model(agent)
		for _, err := range []error{err, e.Missing(ctx, agent)} {
			if err != nil && !Lacks(err, MissingKey) {
				return Invalid(fmt.Errorf("agent %s: %w", agent.ID, err))
			}
		}
	}
	if team.Orchestrator.RunsChecks() {
		var shell config.Agent
		shell.Tools.Shell = true
		if err := e.Missing(ctx, shell); err != nil {
			return Invalid(fmt.Errorf("orchestrator.ballot %s runs commands: %w", team.Orchestrator.Ballot, err))
		}
	}
	if team.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, agent := range team.Models() {
		if e.Priced == nil || !e.Priced(agent) {
			return Invalid(Unpriced(agent))
		}
	}
	return nil
}

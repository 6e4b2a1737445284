package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/overlay"
	"conclave/engine/step"
)

// Equipment provides the teams, models and tools of a worker. Its functions are called
// concurrently, in every attempt at a step.
type Equipment struct {
	Teams Teams

	// Model builds an agent's model. It returns a *LackError if another process may have the key or
	// the provider; any other error is a fault of the configuration.
	Model func(config.Agent) (loop.Model, error)

	// Tools opens an agent's ordinary tools on a workspace; the step closes them. It returns the
	// errors of Lacks, or a *LackError of type ToolsUnavailable.
	Tools func(ctx context.Context, agent config.Agent, workspace string, s Sharing) (step.Tools, error)

	// Overlays returns the mount namespace in which an agent's tools can work, or nil if they need
	// copies of the files of a base. A nil Overlays returns nil.
	Overlays func(context.Context, config.Agent) *overlay.Mounts

	// SharedDirs returns the directories of a run's shared servers that are connected in this
	// process. A nil SharedDirs returns no directories.
	SharedDirs func(run string) []string

	// EndShared ends the servers in this process that the steps of a run share; it may be nil.
	EndShared func(run string)

	// Lacks returns a *LackError if an agent's tools need an MCP server, a sandbox or a variable
	// that this process lacks. If nil, nothing is lacking.
	Lacks func(context.Context, config.Agent) error

	// Confine runs the command of a check under the same confinement as agents' commands.
	Confine func(context.Context, check.Confined) (check.Ended, error)

	// Priced reports whether the price of an agent's model is known. If nil, no price is.
	Priced func(config.Agent) bool

	// Window returns the context window of an agent's model in tokens, or 0 if it is unknown. If
	// nil, no window is known.
	Window func(config.Agent) int

	// NoCalls returns explanations for an agent's model that called no tool, and for one that wrote
	// unreadable calls as text. If nil, both are "".
	NoCalls func(config.Agent) (none, unread string)

	// Alone reports whether no other process polls the task queue of ctx's activity. If nil, none
	// does.
	Alone func(ctx context.Context) bool

	// Indexed returns the search attributes that exist in the namespace of ctx's activity. A nil Indexed
	// returns no attributes.
	Indexed func(context.Context) []string

	// Repeatable reports whether a tool call that may already have run can safely run again. If
	// nil, every call can.
	Repeatable func(tool string) bool
}

// Sharing selects the MCP servers that a step shares with other steps of its run.
type Sharing struct {
	Run string // the key prefix of the run whose steps share servers; empty for none
	All bool   // the steps share all servers, even those of scope step
}

// Over ends the servers in this process that the steps of a run share.
func (e Equipment) Over(layout artifact.Layout) {
	if e.EndShared != nil {
		e.EndShared(layout.Root())
	}
}

// Attributes returns the search attributes of the namespace of ctx's activity.
func (e Equipment) Attributes(ctx context.Context) []string {
	if e.Indexed == nil {
		return nil
	}
	return e.Indexed(ctx)
}

// Unknown returns the error for a name that this worker does not know, such as a team's. While other
// processes poll the queue, one of them may know it.
func (e Equipment) Unknown(ctx context.Context, err error) error {
	const attempts = 6 // about a minute
	if e.Alone == nil || e.Alone(ctx) || activity.GetInfo(ctx).Attempt >= attempts {
		return Invalid(err)
	}
	return Elsewhere(&LackError{Type: NoTeam, Err: err})
}

// Missing calls Lacks.
func (e Equipment) Missing(ctx context.Context, agent config.Agent) error {
	if e.Lacks == nil {
		return nil
	}
	return e.Lacks(ctx, agent)
}

// Check builds every agent's model and looks up its tools, so that an unusable configuration fails
// before it causes costs. If this worker lacks something, a run that parks is accepted, since its
// steps wait for a better equipped worker. Any other run is refused unless other processes poll the queue.
func (e Equipment) Check(ctx context.Context, team config.Team, parks bool) error {
	for _, agent := range team.Models() {
		_, err := e.Model(agent)
		for _, err := range []error{err, e.Missing(ctx, agent)} {
			lack, lacks := errors.AsType[*LackError](err)
			switch {
			case err == nil, lacks && (parks || lack.Type == MissingKey):
			case lacks:
				return e.Unknown(ctx, fmt.Errorf("agent %s: %w", agent.ID, err))
			default:
				return Invalid(fmt.Errorf("agent %s: %w", agent.ID, err))
			}
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

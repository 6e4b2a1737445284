package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/overlay"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/step"
)

// Equipment is the models and tools of a worker. Its methods are called concurrently, in every
// attempt at a step.
type Equipment interface {
	// Model builds an agent's model. It returns a *LackError if another process may have the key or
	// the provider; any other error is a fault of the configuration.
	Model(config.Agent) (loop.Model, error)

	// Priced reports whether the price of an agent's model is known.
	Priced(config.Agent) bool

	// Window returns the context window of an agent's model in tokens, or 0 if it is unknown.
	Window(config.Agent) int

	// NoCalls returns explanations for an agent's model that called no tool, and for one that wrote
	// unreadable calls as text.
	NoCalls(config.Agent) (none, unread string)

	// OpenTools opens an agent's ordinary tools on a workspace; the step closes them. It returns the
	// errors of Lacks, or a *LackError of type ToolsUnavailable.
	OpenTools(ctx context.Context, agent config.Agent, workspace string, s Sharing) (step.Tools, error)

	// Lacks returns a *LackError if an agent's tools need an MCP server, a sandbox or a variable
	// that this process lacks.
	Lacks(context.Context, config.Agent) error

	// Confined returns why this process does not confine commands as its settings require, or that they
	// require nothing. If it returns nil, an agent with config.AutoShell gets a shell.
	Confined(context.Context) error

	// Repeatable reports whether a tool call that may already have run can safely run again.
	Repeatable(tool string) bool

	// Gate returns the operator's rules for tool calls with those of a team.
	Gate(team []approval.Rule) approval.Gate

	// Confine runs the command of a check under the same confinement as agents' commands.
	Confine(context.Context, check.Confined) (check.Ended, error)

	// Overlays returns the mount namespace in which an agent's tools can work, or nil if they need
	// copies of the files of a base.
	Overlays(context.Context, config.Agent) *overlay.Mounts

	// SharedDirs returns the directories of a run's shared servers that are connected in this
	// process.
	SharedDirs(run string) []string

	// EndShared ends the servers in this process that the steps of a run share, and removes their caches.
	EndShared(run string)
}

// ShellFile records why the agents of a session or run with config.AutoShell cannot run commands; empty if
// they can. It is written once: by the worker that prepares the session, or that runs the first step.
const ShellFile = "shell.json"

// SettleShell returns agents with the decision in place of config.AutoShell, and the reason if they cannot run
// commands. Unless it is on record, the result of confined decides.
func SettleShell(ctx context.Context, confined func(context.Context) error, store artifact.Store, layout artifact.Layout, agents ...config.Agent) (settled []config.Agent, why string, err error) {
	settled = slices.Clone(agents)
	for i := range settled {
		shell := &settled[i].Tools.Shell
		if *shell != config.AutoShell {
			continue
		}
		if why, err = recordShell(ctx, confined, store, layout.File(ShellFile)); err != nil {
			return nil, "", fmt.Errorf("decide whether agents can run commands: %w", err)
		}
		if *shell = config.ShellOn; why != "" {
			*shell = config.ShellOff
		}
	}
	return settled, why, nil
}

func recordShell(ctx context.Context, confined func(context.Context) error, store artifact.Store, key string) (why string, err error) {
	why, err = artifact.ReadJSON[string](ctx, store, key)
	if errors.Is(err, artifact.ErrNotFound) {
		if refusal := confined(ctx); refusal != nil {
			why = refusal.Error()
		}
		if err = CreateOnce(ctx, store, key, why); err == nil {
			why, err = artifact.ReadJSON[string](ctx, store, key) // another worker may have been first
		}
	}
	return why, err
}

// Sharing selects the things that a step shares with others of its run: MCP servers, and the additions of its commands
// to the caches of build tools.
type Sharing struct {
	Run string // the key prefix of the run whose steps share servers; empty for none
	All bool   // the steps share all servers, even those of scope step

	// Agent names those steps of the run that share caches; empty for none. Equal names in the run of
	// another workflow are different.
	Agent string
	Base  *artifact.Base // the files that the run starts from; nil for none
}

// Server is Temporal's server, for the activities of a worker.
type Server interface {
	// Heartbeat sends a heartbeat for the attempt with a task token and returns the server's answer.
	// The SDK's own heartbeat does not report whether the server acknowledged it.
	Heartbeat(ctx context.Context, taskToken []byte, details ...any) error

	// Pending reports whether an activity of a running workflow is still open.
	Pending(ctx context.Context, workflowID, runID, activityID string) (bool, error)

	// Bell reads the doorbell of a run from its workflow's memo, and returns the zero Ring if it was
	// never rung, with a temporal.CanceledError if the activity of ctx is to be cancelled.
	Bell(ctx context.Context, workflowID, runID string) (coordination.Ring, error)

	// Signal sends a signal to a workflow.
	Signal(ctx context.Context, workflowID, runID, signal string, arg any) error

	// Alone reports whether no other process polls the task queue of ctx's activity.
	Alone(ctx context.Context) bool

	// Attributes returns the search attributes that exist in the namespace of ctx's activity.
	Attributes(ctx context.Context) []string
}

// UnknownName returns the error for a name that this worker does not know, such as a team's. While
// other processes poll the queue, one of them may know it.
func UnknownName(ctx context.Context, s Server, err error) error {
	const attempts = 6 // about a minute
	if s.Alone(ctx) || activity.GetInfo(ctx).Attempt >= attempts {
		return Invalid(err)
	}
	if Lacks(err, NoSource) {
		return Elsewhere(err)
	}
	return Elsewhere(&LackError{Type: NoTeam, Err: err})
}

// CheckTeam builds every agent's model and looks up its tools, so that an unusable configuration fails
// before it causes costs. If this worker lacks something, a run that parks is accepted, since its
// steps wait for a better equipped worker. Any other run is refused unless other processes poll the queue.
func CheckTeam(ctx context.Context, e Equipment, s Server, team config.Team, parks bool) error {
	for _, agent := range team.Models() {
		_, err := e.Model(agent)
		for _, err := range []error{err, e.Lacks(ctx, agent)} {
			lack, lacks := errors.AsType[*LackError](err)
			switch {
			case err == nil, lacks && (parks || lack.Type == MissingKey):
			case lacks:
				return UnknownName(ctx, s, fmt.Errorf("agent %s: %w", agent.ID, err))
			default:
				return Invalid(fmt.Errorf("agent %s: %w", agent.ID, err))
			}
		}
	}
	if team.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, agent := range team.Models() {
		if !e.Priced(agent) {
			return Invalid(Unpriced(agent))
		}
	}
	return nil
}

package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The registered activity names. They are in every history: changing one
// breaks running sessions.
const (
	PrepareName = "Prepare"
	RunStepName = "RunStep"
	RecordName  = "Record"
	PresentName = "Present"
)

// Activities holds what the activities need of their process.
type Activities struct {
	Store artifact.Store
	Teams Teams

	// Model builds the model of an agent. Its error is a *MissingKeyError or a
	// *NoProviderError when this process lacks something that another may have,
	// anything else is a fault of the configuration.
	Model func(config.Agent) (loop.Model, error)

	// Priced reports whether the costs of an agent's model will be known; nil if
	// none are.
	Priced func(config.Agent) bool

	// Window is the context window of an agent's model in tokens, 0 if it is not
	// known; nil if none is.
	Window func(config.Agent) int

	// Equipped reports what an agent's tools need and this process lacks: its error
	// is a *NoServerError, a *NoSandboxError or a *MissingKeyError when another
	// process may have it. nil if nothing is ever lacking.
	Equipped func(context.Context, config.Agent) error

	// Tools opens an agent's ordinary tools on a workspace. Its error is one of
	// Equipped, or a *ToolsUnavailableError.
	Tools func(ctx context.Context, agent config.Agent, workspace string) (step.Tools, error)

	// WorkspaceFile reads a file of a workspace, of at most so many bytes, as the
	// agent's own tools would; objection is what the agent is told instead.
	WorkspaceFile func(workspace, name string, most int64) (content []byte, objection string, err error)

	// Repeatable reports whether a call of a tool that may have run already can be
	// run again without harm; nil for every tool.
	Repeatable func(tool string) bool

	// Redact takes the secrets of this process out of what tools say and what is
	// kept of a step; nil for none.
	Redact func([]byte) []byte

	// Heartbeat tells the server that an activity lives and returns its answer.
	// It is the client's RecordActivityHeartbeat: the SDK's own heartbeat hides
	// whether the server acknowledged it.
	Heartbeat func(ctx context.Context, taskToken []byte, details ...any) error

	// Bell reads the doorbell of a run of a session, which is in the memo of its
	// workflow; the zero Bell if it was never rung. nil for no doorbell: then
	// nothing reaches a running step.
	Bell func(ctx context.Context, workflowID, runID string) (step.Bell, error)

	Now     func() time.Time
	Scratch string
}

// Registry is the part of a Temporal worker that registers activities; the
// SDK's test environments have it, too.
type Registry interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// RegisterSteps registers what needs teams, models and keys.
func (a *Activities) RegisterSteps(r Registry) {
	r.RegisterActivityWithOptions(a.Prepare, activity.RegisterOptions{Name: PrepareName})
	r.RegisterActivityWithOptions(a.RunStep, activity.RegisterOptions{Name: RunStepName})
	r.RegisterActivityWithOptions(a.PreparePipeline, activity.RegisterOptions{Name: PreparePipelineName})
	r.RegisterActivityWithOptions(a.RunSegment, activity.RegisterOptions{Name: RunSegmentName})
	r.RegisterActivityWithOptions(a.AskTeam, activity.RegisterOptions{Name: AskTeamName})
	r.RegisterActivityWithOptions(a.PrepareScenario, activity.RegisterOptions{Name: PrepareScenarioName})
	r.RegisterActivityWithOptions(a.RunScenarioStep, activity.RegisterOptions{Name: RunScenarioStepName})
}

// RegisterBookkeeping registers what needs the store and nothing else.
func (a *Activities) RegisterBookkeeping(r Registry) {
	r.RegisterActivityWithOptions(a.Record, activity.RegisterOptions{Name: RecordName})
	r.RegisterActivityWithOptions(a.Present, activity.RegisterOptions{Name: PresentName})
	r.RegisterActivityWithOptions(a.RecordPipeline, activity.RegisterOptions{Name: RecordPipelineName})
	r.RegisterActivityWithOptions(a.ConcludePipeline, activity.RegisterOptions{Name: ConcludePipelineName})
	r.RegisterActivityWithOptions(a.RecordScenario, activity.RegisterOptions{Name: RecordScenarioName})
}

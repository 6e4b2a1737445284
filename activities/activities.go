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

	// Tools opens the ordinary tools on a workspace.
	Tools func(workspace string) (step.Tools, error)

	// Heartbeat tells the server that an activity lives and returns its answer.
	// It is the client's RecordActivityHeartbeat: the SDK's own heartbeat hides
	// whether the server acknowledged it.
	Heartbeat func(ctx context.Context, taskToken []byte, details ...any) error

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
}

// RegisterBookkeeping registers what needs the store and nothing else.
func (a *Activities) RegisterBookkeeping(r Registry) {
	r.RegisterActivityWithOptions(a.Record, activity.RegisterOptions{Name: RecordName})
	r.RegisterActivityWithOptions(a.Present, activity.RegisterOptions{Name: PresentName})
}

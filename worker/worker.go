package worker

import (
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/workflows"
)

// Config says what a worker process is made of.
type Config struct {
	Client client.Client
	Store  artifact.Store
	Teams  activities.Teams

	// TaskQueue is workflows.TaskQueue if empty.
	TaskQueue string

	// Scratch is where steps keep their workspaces while they run; the system's
	// temporary directory if empty.
	Scratch string

	// WorkflowsOnly makes a worker that answers queries and moves sessions along
	// but never runs a step, for commands that only look.
	WorkflowsOnly bool

	// MaxConcurrentSteps is 32 if 0: steps wait for models, not for a processor.
	MaxConcurrentSteps int

	// Models builds the agents' models.
	Models Models

	// OnFatal is told when the worker cannot go on, for instance because its
	// namespace is gone; nil for nobody.
	OnFatal func(error)

	Logger *slog.Logger
}

const (
	defaultSteps = 32

	// stopTimeout is how long a stopping worker waits for its steps. They end
	// within a second: what they had is not lost, another worker runs them again.
	stopTimeout = 5 * time.Second

	// heartbeatThrottle bounds how long a cancellation waits for a heartbeat on
	// servers that cannot push it.
	heartbeatThrottle = 5 * time.Second
)

// Worker polls a task queue.
type Worker struct{ worker sdkworker.Worker }

// New assembles a worker; Start makes it poll.
func New(c Config) (*Worker, error) {
	if c.Client == nil || c.Store == nil {
		return nil, fmt.Errorf("a worker needs a client and a store")
	}
	if c.TaskQueue == "" {
		c.TaskQueue = workflows.TaskQueue
	}
	if c.MaxConcurrentSteps == 0 {
		c.MaxConcurrentSteps = defaultSteps
	}
	w := sdkworker.New(c.Client, c.TaskQueue, sdkworker.Options{
		MaxConcurrentActivityExecutionSize: c.MaxConcurrentSteps,
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		WorkerStopTimeout:                  stopTimeout,
		LocalActivityWorkerOnly:            c.WorkflowsOnly,
		DisableRegistrationAliasing:        true,
		OnFatalError:                       c.OnFatal,
	})
	w.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: workflows.SessionType})
	acts := &activities.Activities{
		Store: c.Store, Teams: c.Teams, Model: c.Models.Model, Tools: openTools,
		Heartbeat: c.Client.RecordActivityHeartbeat, Now: time.Now, Scratch: c.Scratch,
	}
	acts.Register(w)
	return &Worker{worker: w}, nil
}

// Start begins to poll and returns.
func (w *Worker) Start() error {
	if err := w.worker.Start(); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	return nil
}

// Stop ends polling and hands running steps over.
func (w *Worker) Stop() { w.worker.Stop() }

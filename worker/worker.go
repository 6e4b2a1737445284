package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/activities/tools"
	"conclave/engine/artifact"
	"conclave/engine/redact"
	"conclave/worker/settings"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// Config says what a worker process is made of.
type Config struct {
	Client client.Client
	Store  artifact.Store

	// TaskQueue is drive.TaskQueue if empty.
	TaskQueue string

	// NoSteps makes a worker that answers queries, moves sessions along and keeps
	// their books, but never runs a step. The fields below are for steps only.
	NoSteps bool

	Teams activities.Teams

	// Models builds the agents' models.
	Models Models

	// Tools opens the agents' tools; those of a worker without a configuration if
	// nil.
	Tools *Tools

	// Scratch is where steps keep their workspaces while they run; the system's
	// temporary directory if empty.
	Scratch string

	// Cache is where content is kept that was stored or read once; empty for
	// nowhere.
	Cache string

	// MaxConcurrentSteps is 32 if 0: steps wait for models, not for a processor.
	MaxConcurrentSteps int

	// OnFatal is told when the worker cannot go on, for instance because its
	// namespace is gone; nil for nobody.
	OnFatal func(error)
}

const (
	defaultSteps = 32

	// stepPollers take the steps of a wave at once. With the SDK's two, a third
	// step waits until a poller is back from the server.
	stepPollers = 8

	// stopTimeout is how long a stopping worker waits for its steps. They end
	// within a second: what they had is not lost, another worker runs them again.
	stopTimeout = 5 * time.Second

	// heartbeatThrottle bounds how long a cancellation waits for a heartbeat on
	// servers that cannot push it.
	heartbeatThrottle = 5 * time.Second
)

// Worker polls a task queue and the one of its steps.
type Worker struct {
	sessions sdkworker.Worker
	steps    sdkworker.Worker // nil without steps
	scratch  *scratch
}

// New assembles a worker; Start makes it poll.
func New(c Config) (*Worker, error) {
	if c.Client == nil || c.Store == nil {
		return nil, errors.New("a worker needs a client and a store")
	}
	if c.TaskQueue == "" {
		c.TaskQueue = drive.TaskQueue
	}
	if c.MaxConcurrentSteps == 0 {
		c.MaxConcurrentSteps = defaultSteps
	}
	if c.Tools == nil {
		c.Tools = NewTools(settings.Default())
	}
	c.Tools.Keep(c.Scratch, c.Cache)
	c.cacheContent()
	c.Models.servers = newServers()
	nameBinary()
	w := &Worker{sessions: sdkworker.New(c.Client, c.TaskQueue, sdkworker.Options{
		WorkerStopTimeout:           stopTimeout,
		DisableRegistrationAliasing: true,
		OnFatalError:                c.OnFatal,
	})}
	w.sessions.RegisterWorkflowWithOptions(sessionflow.Workflow, workflow.RegisterOptions{Name: sessionflow.Type})
	w.sessions.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	w.sessions.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	if !c.NoSteps {
		var err error
		if w.scratch, err = openScratch(c.Scratch); err != nil {
			return nil, err
		}
	}
	p := c.process(w.scratch)
	sessions, pipelines, scenarios := session.Activities{Process: p}, pipeline.Activities{Process: p}, scenario.Activities{Process: p, ReadFile: tools.ReadFile}
	sessions.RegisterBookkeeping(w.sessions)
	pipelines.RegisterBookkeeping(w.sessions)
	scenarios.RegisterBookkeeping(w.sessions)
	if c.NoSteps {
		return w, nil
	}
	w.steps = sdkworker.New(c.Client, c.TaskQueue+drive.StepsSuffix, sdkworker.Options{
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: c.MaxConcurrentSteps,
		MaxConcurrentActivityTaskPollers:   min(stepPollers, c.MaxConcurrentSteps),
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		WorkerStopTimeout:                  stopTimeout,
		DisableRegistrationAliasing:        true,
		OnFatalError:                       c.OnFatal,
	})
	sessions.RegisterSteps(w.steps)
	pipelines.RegisterSteps(w.steps)
	scenarios.RegisterSteps(w.steps)
	return w, nil
}

// process returns what activities need of this process; without a scratch
// directory it runs no steps.
func (c Config) process(s *scratch) attempt.Process {
	p := attempt.Process{
		Equipment: activities.Equipment{
			Teams: c.Teams, Model: c.Models.Model, Priced: c.Models.Priced, Window: c.Models.Window,
			Tools: c.Tools.Open, Lacks: c.Tools.Lacks, Repeatable: c.Tools.repeatable,
		},
		Store: c.Store, Now: time.Now, Heartbeat: c.Client.RecordActivityHeartbeat, Bell: doorbell(c.Client),
		Redact: redact.New(redact.Environment(slices.Concat(os.Environ(), c.Tools.secrets()))).Bytes,
	}
	if s != nil {
		p.Scratch = s.dir
	}
	return p
}

// Start begins to poll and returns.
func (w *Worker) Start() error {
	if err := w.sessions.Start(); err != nil {
		w.clear()
		return fmt.Errorf("starting the worker of sessions: %w", err)
	}
	if w.steps == nil {
		return nil
	}
	if err := w.steps.Start(); err != nil {
		w.sessions.Stop()
		w.clear()
		return fmt.Errorf("starting the worker of steps: %w", err)
	}
	return nil
}

// Stop ends polling and hands running steps over.
func (w *Worker) Stop() {
	if w.steps != nil {
		w.steps.Stop()
	}
	w.clear()
	w.sessions.Stop()
}

// clear removes the workspaces of steps.
func (w *Worker) clear() {
	if w.scratch != nil {
		w.scratch.close()
	}
}

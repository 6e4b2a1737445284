package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/activities/tools"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/overlay"
	"conclave/engine/scratch"
	"conclave/worker/cluster"
	"conclave/worker/metrics"
	"conclave/worker/settings"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// Config configures a worker process.
type Config struct {
	Client client.Client
	Store  artifact.Store

	// TaskQueue defaults to drive.TaskQueue.
	TaskQueue string

	// NoSteps limits the worker to workflows and bookkeeping. The fields that follow apply only to
	// steps.
	NoSteps bool

	Teams activities.Teams

	Models  Models
	Tools   *Tools // default: the tools of an empty configuration
	Scratch string // parent of the workspaces' directory; by default the system's temporary one
	Cache   string // directory of the content cache; empty for none

	// MaxConcurrentSteps defaults to 32. Steps spend their time waiting for models, so it may
	// exceed the number of processors.
	MaxConcurrentSteps int

	// HeartbeatTimeout applies to the steps of runs that this worker prepares. The default is
	// attempt.HeartbeatTimeout.
	HeartbeatTimeout time.Duration

	// Roster is a directory in which the running activities of this process are recorded, so that
	// other workers with the same directory detect its death at once; empty for none. Server
	// identifies the Temporal service among those that share the directory; empty for the embedded
	// one.
	Roster, Server string

	// Grace is how long a worker that stops waits for the model and tool calls of workflows other than
	// Own. Draining is called before it waits, with
	// the number of calls; it may be nil.
	Grace    time.Duration
	Own      string
	Draining func(calls int)

	// Namespace is the client's namespace. It is only used on a cluster.
	Namespace string

	// Deployment names the worker deployment of this process: a run stays with the build with which
	// it began. If it is empty, any worker may continue any run.
	Deployment string

	// Metrics is served at MetricsAddress, unless that is empty. It may be nil.
	Metrics        *metrics.Metrics
	MetricsAddress string

	// Log receives the messages of the worker itself. The default is slog.Default.
	Log *slog.Logger

	// onFatal is called when the worker cannot continue, for example because its namespace does not
	// exist.
	onFatal func(error)
}

const (
	defaultSteps = 32

	// stepPollers is the number of pollers for steps, so that a wave of steps starts at once. The
	// SDK's default is two.
	stepPollers = 8

	// stopTimeout is how long a worker that stops waits for its steps. Another worker resumes those
	// that are still running.
	stopTimeout = 5 * time.Second

	// stickyTimeout is how long a workflow task waits for the worker that has the workflow in its
	// cache; that worker may have been killed.
	stickyTimeout = 2 * time.Second

	// startTime is how long the steps of a wave usually take from their launch to their first model
	// calls. The record of the wave before them needs the same processors and disk.
	startTime = 100 * time.Millisecond

	// heartbeatThrottle bounds the delay of a cancellation if the server cannot push it.
	heartbeatThrottle = 5 * time.Second
)

// Start starts a worker that polls a task queue and the queue of its steps. stop ends polling and
// leaves running steps to other workers.
func Start(c Config) (stop func(), err error) {
	if c.Client == nil || c.Store == nil {
		return nil, errors.New("a worker needs a client and a store")
	}
	c.complete()
	if c.Models.traces, err = c.openTraces(); err != nil {
		return nil, err
	}
	open := stack{c.Models.traces.Close}
	defer func() {
		if err != nil {
			open.close()
		}
	}()
	closeMetrics, err := c.serveMetrics()
	if err != nil {
		return nil, err
	}
	open = append(open, closeMetrics)
	noted, forget, err := c.openRoster()
	if err != nil {
		return nil, err
	}
	open = append(open, forget)
	workspaces := ""
	if !c.NoSteps {
		s, err := scratch.Open(c.Scratch, scratch.Worker)
		if err != nil {
			return nil, err
		}
		scratch.Sweep(os.TempDir()) // the HOMEs of a killed worker's MCP servers are there
		c.Tools.overlays = &overlays{tools: c.Tools, workspaces: s.Path, trees: c.treesDir(), log: c.Tools.Log}
		workspaces, open = s.Path, append(open, s.Close, c.Tools.release, c.Tools.overlays.close)
	}
	sdkworker.SetBinaryChecksum(binaryName())
	running := attempt.NewSteps()
	c.Metrics.Teams(slices.Collect(maps.Keys(c.Teams.Named)))
	c.Metrics.Steps(running.Doing)
	c.Metrics.Sandbox(c.Tools.level)
	p := c.process(workspaces, running)
	open = append(open, p.Trees.Close)
	polling, err := c.poll(p, noted, running)
	open = append(open, polling...)
	if err != nil {
		return nil, err
	}
	open = append(open, c.shareLimits())
	c.Metrics.Ready(c.reachable)
	draining := func() {
		if calls := running.Lasting(); calls > 0 && c.Draining != nil {
			c.Draining(calls)
		}
	}
	return append(open, draining, c.Metrics.Draining).close, nil
}

// graceOf returns how long a call of a workflow's step may go on when this worker stops.
func (c Config) graceOf(workflow string) time.Duration {
	if workflow == c.Own {
		return 0
	}
	return c.Grace
}

// poll starts to poll the task queues. If it fails, stop closes the pollers started before.
func (c Config) poll(p attempt.Process, noted interceptor.WorkerInterceptor, running *attempt.Steps) (stop stack, err error) {
	sessions, steps := c.sessionWorker(noted), c.stepWorker(c.TaskQueue+drive.StepsSuffix, noted, running)
	own := newHost(c.TaskQueue+drive.StepsSuffix, c.Log, func(queue string) sdkworker.Worker {
		w := c.stepWorker(queue, noted, running)
		(&scenario.Activities{Process: p, ReadFile: tools.ReadFile}).RegisterSteps(w)
		return w
	})
	p.Host = own.use
	c.register(p, sessions, steps)
	if err := sessions.Start(); err != nil {
		return nil, fmt.Errorf("starting the worker of sessions: %w", err)
	}
	stop = append(stop, sessions.Stop)
	if !c.NoSteps {
		if err := steps.Start(); err != nil {
			return stop, fmt.Errorf("starting the worker of steps: %w", err)
		}
		stop = append(stop, own.close, steps.Stop)
	}
	return stop, nil
}

// stack holds the functions that close opened resources, in order of opening.
type stack []func()

func (s stack) close() {
	for _, f := range slices.Backward(s) {
		f()
	}
}

func (c *Config) complete() {
	c.TaskQueue = cmp.Or(c.TaskQueue, drive.TaskQueue)
	c.MaxConcurrentSteps = cmp.Or(c.MaxConcurrentSteps, defaultSteps)
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, attempt.HeartbeatTimeout)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Tools == nil {
		c.Tools = NewTools(settings.Default())
	}
	c.Tools.Keep(c.Scratch, c.Cache, c.treesDir())
	c.cacheContent()
	c.Models.servers, c.Models.metrics = newServers(), c.Metrics
}

func (c Config) sessionWorker(noted interceptor.WorkerInterceptor) sdkworker.Worker {
	w := sdkworker.New(c.Client, c.TaskQueue, sdkworker.Options{
		StickyScheduleToStartTimeout: stickyTimeout,
		WorkerStopTimeout:            stopTimeout,
		Identity:                     cluster.WorkerIdentity(),
		DeploymentOptions:            c.deployment(),
		DisableRegistrationAliasing:  true,
		Interceptors:                 c.interceptors(noted),
		OnFatalError:                 c.onFatal,
	})
	w.RegisterWorkflowWithOptions(sessionflow.Workflow, workflow.RegisterOptions{Name: sessionflow.Type})
	w.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	w.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	return w
}

func (c Config) stepWorker(queue string, noted interceptor.WorkerInterceptor, running *attempt.Steps) sdkworker.Worker {
	return sdkworker.New(c.Client, queue, sdkworker.Options{
		DisableWorkflowWorker:            true,
		Tuner:                            newTuner(c.MaxConcurrentSteps, running.Lagging),
		MaxConcurrentActivityTaskPollers: min(stepPollers, c.MaxConcurrentSteps),
		MaxHeartbeatThrottleInterval:     heartbeatThrottle,
		WorkerStopTimeout:                stopTimeout + c.Grace,
		Identity:                         cluster.WorkerIdentity(),
		DeploymentOptions:                c.deployment(),
		DisableRegistrationAliasing:      true,
		Interceptors:                     c.interceptors(noted),
		OnFatalError:                     c.onFatal,
	})
}

func (c Config) register(p attempt.Process, bookkeeping, steps sdkworker.ActivityRegistry) {
	for _, product := range []interface {
		RegisterBookkeeping(sdkworker.ActivityRegistry)
		RegisterSteps(sdkworker.ActivityRegistry)
	}{
		&session.Activities{Process: p},
		&pipeline.Activities{Process: p},
		&scenario.Activities{Process: p, ReadFile: tools.ReadFile},
	} {
		product.RegisterBookkeeping(bookkeeping)
		product.RegisterSteps(steps)
	}
}

// process returns the dependencies that activities get from this process.
func (c Config) process(workspaces string, running *attempt.Steps) attempt.Process {
	return attempt.Process{
		Equipment: activities.Equipment{
			Teams: c.Teams, Model: c.Models.Model, Priced: c.Models.Priced, Window: c.Models.Window, NoCalls: c.Models.NoCalls,
			Tools: c.openTools, EndShared: c.Tools.shared.End, SharedDirs: c.Tools.shared.Dirs, Lacks: c.Tools.Lacks, Repeatable: c.Tools.repeatable,
			Overlays: c.overlays,
			Confine:  c.Tools.Confine,
			Alone:    alone(c.Client),
			Indexed:  (&attributes{client: c.Client, log: c.Log, known: map[string]registered{}}).registered,
		},
		Store: c.Store, Trees: base.NewTrees(c.Store, c.treesDir(), treeBytes), Now: time.Now, Bell: doorbell(c.Client), Scratch: workspaces,
		Heartbeat: c.Client.RecordActivityHeartbeat, HeartbeatTimeout: c.HeartbeatTimeout, Pending: pending(c.Client), Steps: running, Grace: c.graceOf,
		Signal: c.Client.SignalWorkflow,
		Marks:  &attempt.Marks{},
		Yield:  yield,
		Redact: c.redact(),
	}
}

// overlays returns the mounts for an agent's workspaces, or nil if they are copies.
func (c Config) overlays(ctx context.Context, agent config.Agent) *overlay.Mounts {
	if c.Tools.overlays == nil {
		return nil
	}
	return c.Tools.overlays.of(ctx, agent)
}

// yield waits until the steps of a wave have started.
func yield(ctx context.Context) {
	select {
	case <-time.After(startTime):
	case <-ctx.Done():
	}
}

// doorbell returns a function that reads the doorbell of a run from its workflow's memo, and fails with
// a temporal.CanceledError if the activity of ctx is to be cancelled. This does not need a worker.
func doorbell(c client.Client) func(ctx context.Context, workflowID, runID string) (coordination.Ring, error) {
	return func(ctx context.Context, workflowID, runID string) (coordination.Ring, error) {
		var bell coordination.Ring
		described, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
		if err != nil {
			return bell, fmt.Errorf("reading the memo of workflow %s, run %s: %w", workflowID, runID, err)
		}
		if payload, rung := described.GetWorkflowExecutionInfo().GetMemo().GetFields()[drive.MemoDoorbell]; rung {
			if err := converter.GetDefaultDataConverter().FromPayload(payload, &bell); err != nil {
				return coordination.Ring{}, fmt.Errorf("reading the doorbell of workflow %s: %w", workflowID, err)
			}
		}
		if activity.IsActivity(ctx) && slices.ContainsFunc(described.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityId() == activity.GetInfo(ctx).ActivityID && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
		}) {
			return bell, temporal.NewCanceledError()
		}
		return bell, nil
	}
}

// binaryName returns the commit or version of the program. Without it, the SDK would hash the whole
// executable before the first poll.
func binaryName() string {
	const unknown = "conclave"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return cmp.Or(info.Main.Version, unknown)
}

// ErrEnded is the error of a worker that cannot continue.
var ErrEnded = errors.New("the worker cannot continue")

// Run runs a worker until ctx ends or the worker cannot continue. It calls started when polling
// begins.
func Run(ctx context.Context, c Config, started func()) error {
	fatal := make(chan error, 1)
	c.onFatal = func(err error) {
		select {
		case fatal <- err:
		default: // the first one is reported
		}
	}
	stop, err := Start(c)
	if err != nil {
		return err
	}
	defer stop()
	started()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
}

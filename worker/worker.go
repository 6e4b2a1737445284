package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
	"conclave/engine/loop"
	"conclave/engine/text"
	"conclave/worker/cluster"
	"conclave/workflows"
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
	Metrics        *cluster.Metrics
	MetricsAddress string

	// Sources are the files that runs can start from, by name.
	Sources map[string]Source

	// Receivers are told of the runs that this worker prepares. Pages returns the address of the
	// pages of runs, or "" if none are known; it may be nil.
	Receivers []activities.Receiver
	Pages     func() string

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
	c.setDefaults()
	traced := TracerOptions{Version: cluster.Version(), Instance: cluster.WorkerIdentity(), Redact: c.secretRemover(), Log: c.Log}
	if c.Models.traces, err = OpenTracer(context.Background(), traced); err != nil {
		return nil, err
	}
	open := stack{c.Models.traces.Close}
	defer func() {
		if err != nil {
			open.closeReversed()
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
		s, err := filelock.OpenScratch(c.Scratch, filelock.Worker)
		if err != nil {
			return nil, err
		}
		filelock.SweepScratch(os.TempDir()) // the HOMEs of a killed worker's MCP servers are there
		c.Tools.overlays = &overlays{tools: c.Tools, workspaces: s.Path, trees: c.treesDir(), log: c.Tools.Log}
		workspaces, open = s.Path, append(open, s.Close, c.Tools.closeShared, c.Tools.overlays.closeMounts)
	}
	sdkworker.SetBinaryChecksum(cluster.Version()) // without it, the SDK would hash the whole executable
	running := attempt.NewSteps()
	c.Metrics.Teams(slices.Collect(maps.Keys(c.Teams.Named)))
	c.Metrics.Steps(running.Doing)
	c.Metrics.Sandbox(c.Tools.settings.Sandbox.Level, func() bool { return c.Tools.requireConfinement(context.Background()) == nil })
	p := c.processOf(workspaces, running)
	if !c.NoSteps {
		c.Tools.caches = newBuildCaches(c.Tools, p.Trees, workspaces)
		open = append(open, c.Tools.caches.close)
	}
	polling, err := c.startPollers(p, noted, running)
	open = append(open, polling...)
	if err != nil {
		return nil, err
	}
	open = append(open, c.shareLimits())
	c.Metrics.Ready(cluster.TemporalCheck(c.Client))
	draining := func() {
		if calls := running.Lasting(); calls > 0 && c.Draining != nil {
			c.Draining(calls)
		}
	}
	return append(open, draining, c.Metrics.Drain).closeReversed, nil
}

// graceOf returns how long a call of a workflow's step may go on when this worker stops.
func (c Config) graceOf(workflow string) time.Duration {
	if workflow == c.Own {
		return 0
	}
	return c.Grace
}

// startPollers starts to poll the task queues. If it fails, stop closes the pollers started before.
func (c Config) startPollers(p attempt.Process, noted interceptor.WorkerInterceptor, running *attempt.Steps) (stop stack, err error) {
	sessions, steps := c.sessionWorker(noted), c.stepWorker(c.TaskQueue+workflows.StepsSuffix, noted, running)
	own := &host{queue: c.TaskQueue + workflows.StepsSuffix + "-" + strings.ToLower(rand.Text()[:10]), log: c.Log, open: func(queue string) sdkworker.Worker {
		w := c.stepWorker(queue, noted, running)
		(&scenario.Activities{Process: p, ReadFile: tools.ReadFile}).RegisterSteps(w)
		return w
	}}
	p.Host = own.startPolling
	c.registerActivities(p, sessions, steps)
	if err := sessions.Start(); err != nil {
		return nil, fmt.Errorf("start the worker of sessions: %w", err)
	}
	stop = append(stop, sessions.Stop)
	if !c.NoSteps {
		if err := steps.Start(); err != nil {
			return stop, fmt.Errorf("start the worker of steps: %w", err)
		}
		stop = append(stop, own.close, steps.Stop)
	}
	return stop, nil
}

// stack holds the functions that close opened resources, in order of opening.
type stack []func()

func (s stack) closeReversed() {
	for _, f := range slices.Backward(s) {
		f()
	}
}

func (c *Config) setDefaults() {
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	c.MaxConcurrentSteps = cmp.Or(c.MaxConcurrentSteps, defaultSteps)
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, attempt.HeartbeatTimeout)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Tools == nil {
		c.Tools = NewTools(DefaultSettings())
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
		DeploymentOptions:            c.deploymentOptions(),
		DisableRegistrationAliasing:  true,
		Interceptors:                 c.workerInterceptors(noted),
		OnFatalError:                 c.onFatal,
	})
	w.RegisterWorkflowWithOptions(sessionflow.Workflow, workflow.RegisterOptions{Name: sessionflow.Type})
	w.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	w.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	w.RegisterWorkflowWithOptions(workflows.Notify, workflow.RegisterOptions{Name: workflows.NotifyType})
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
		DeploymentOptions:                c.deploymentOptions(),
		DisableRegistrationAliasing:      true,
		Interceptors:                     c.workerInterceptors(noted),
		OnFatalError:                     c.onFatal,
	})
}

func (c Config) registerActivities(p attempt.Process, bookkeeping, steps sdkworker.ActivityRegistry) {
	(&activities.Notifier{Receivers: c.Receivers, Pages: c.Pages, Redact: p.Redact}).RegisterSteps(steps)
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

func (c Config) processOf(workspaces string, running *attempt.Steps) attempt.Process {
	return attempt.Process{
		Equipment: equipment{c.Models, c.Tools}, Teams: c.Teams,
		Server: temporalServer{c.Client, &attributes{client: c.Client, log: c.Log, known: map[string]registered{}}},
		Store:  c.Store, Trees: snapshot.NewTrees(c.Store, c.treesDir(), treeBytes), Now: time.Now, Scratch: workspaces,
		HeartbeatTimeout: c.HeartbeatTimeout, Steps: running, Grace: c.graceOf,
		Marks:  &attempt.Marks{},
		Yield:  awaitWave,
		Redact: c.secretRemover(), Receivers: c.Receivers,
		ReadSource: sources{c.Sources, c.Store, workspaces, c.Log}.readSource,
	}
}

func awaitWave(ctx context.Context) {
	select {
	case <-time.After(startTime):
	case <-ctx.Done():
	}
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

func (c Config) serveMetrics() (stop func(), err error) {
	if c.Metrics == nil || c.MetricsAddress == "" {
		return func() {}, nil
	}
	_, stop, err = c.Metrics.Serve(c.MetricsAddress, c.Log)
	return stop, err
}

func (c Config) secretRemover() func([]byte) []byte {
	secrets := text.SecretsOfEnvironment(slices.Concat(c.Models.secrets(), c.Tools.serverSecrets()))
	return text.NewRedactor(append(secrets, receiverSecrets(c.Receivers)...)).Bytes
}

func (m Models) observeModel(provider, name string, model loop.Model) loop.Model {
	return m.traces.Model(provider, name, m.metrics.Model(provider, name, model))
}

// workerInterceptors returns the interceptors of a worker. The metrics are the outermost, and the
// order of signals is kept next to the workflow.
func (c Config) workerInterceptors(noted interceptor.WorkerInterceptor) []interceptor.WorkerInterceptor {
	var all []interceptor.WorkerInterceptor
	if c.Metrics != nil {
		all = append(all, c.Metrics.Interceptor())
	}
	if c.Models.traces != nil {
		all = append(all, c.Models.traces.Interceptor())
	}
	return append(all, noted, &workflows.SignalOrder{})
}

// cacheBytes is the maximum size of the content cache.
const cacheBytes = 2 << 30

// DefaultCache returns the content cache in the user's cache directory, or "" if the user has none.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "conclave", "content")
}

// treeBytes is the maximum size of the unpacked bases that a worker keeps.
const treeBytes = 4 << 30

// treesDir returns the directory for unpacked bases, which is beside the content cache.
func (c Config) treesDir() string {
	if c.Cache == "" || c.NoSteps {
		return ""
	}
	return filepath.Join(filepath.Dir(c.Cache), "trees")
}

// cacheContent puts the content cache in front of the store. If the cache cannot be opened, the
// store is used directly.
func (c *Config) cacheContent() {
	if c.Cache == "" || c.NoSteps {
		return
	}
	if cached, err := artifact.NewCache(c.Store, c.Cache, cacheBytes); err == nil {
		c.Store = cached
	}
}

//go:build simulate

package stagetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"conclave/activities"
	"conclave/activities/attempt"
	pipelineacts "conclave/activities/pipeline"
	scenarioacts "conclave/activities/scenario"
	sessionacts "conclave/activities/session"
	"conclave/activities/tools"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/workflows"
)

// queue is the task queue of the simulated workers.
const queue = "conclave"

// errCancelled is the end of a context that Temporal cancels.
var errCancelled = context.Canceled

// process is a worker process with the real activities. When it is frozen, none of its calls returns, as
// if the machine slept; when it is dead, none ever does.
type process struct {
	*workertest.Worker
	w       *world
	name    string
	started time.Time
	skew    time.Duration // of its clock
	ahead   time.Time     // from when on it is skewed

	frozen, dead, leaving bool
	severed               time.Time // until when it cannot reach Temporal
	stop                  chan struct{}
	functions             map[string]reflect.Value

	mu       sync.Mutex
	attempts map[*running]bool
}

// running is an execution in its process.
type running struct {
	*execution
	cancel context.CancelCauseFunc
}

func (w *world) startProcess() *process {
	p := &process{
		w: w, name: fmt.Sprintf("w%d", len(w.procs)+1), started: time.Now(), stop: make(chan struct{}),
		functions: map[string]reflect.Value{}, attempts: map[*running]bool{},
	}
	p.Worker = &workertest.Worker{
		OnModel:     func(a config.Agent) (loop.Model, error) { return &model{p, a}, nil },
		OnOpenTools: p.openTools,
		OnConfine:   p.confine,
		OnHeartbeat: p.heartbeat, OnBell: p.bell, OnSignal: p.signal,
		OnPriced: func(config.Agent) bool { return true },
	}
	process := attempt.Process{
		Equipment: p, Server: p, Teams: activities.Teams{Named: w.named}, Store: view{w.bucket, p}, Now: p.now, Scratch: w.scratch,
		HeartbeatTimeout: w.heartbeat(), Steps: attempt.NewSteps(), Marks: &attempt.Marks{}, Redact: redact,
		Spread: func(d time.Duration) time.Duration { return d / 3 },
	}
	sessions := &sessionacts.Activities{Process: process}
	pipelines := &pipelineacts.Activities{Process: process}
	scenarios := &scenarioacts.Activities{Process: process, ReadFile: tools.ReadFile}
	sessions.RegisterSteps(p)
	sessions.RegisterBookkeeping(p)
	pipelines.RegisterSteps(p)
	pipelines.RegisterBookkeeping(p)
	scenarios.RegisterSteps(p)
	scenarios.RegisterBookkeeping(p)
	w.procs = append(w.procs, p)
	return p
}

func (w *world) proc(name string) *process {
	for _, p := range w.procs {
		if p.name == name {
			return p
		}
	}
	return nil
}

// heartbeat is the heartbeat timeout of steps.
func (w *world) heartbeat() time.Duration {
	d, _ := time.ParseDuration(w.setting("heartbeat_timeout"))
	return d
}

// RegisterActivity implements worker.ActivityRegistry.
func (p *process) RegisterActivity(function any) {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	name = strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
	p.functions[name] = reflect.ValueOf(function)
}

// RegisterActivityWithOptions implements worker.ActivityRegistry.
func (p *process) RegisterActivityWithOptions(function any, options activity.RegisterOptions) {
	p.functions[options.Name] = reflect.ValueOf(function)
}

// RegisterDynamicActivity implements worker.ActivityRegistry.
func (p *process) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {}

func registered(name string) activity.RegisterOptions { return activity.RegisterOptions{Name: name} }

func (p *process) held() bool { return p.frozen || p.dead }

// polls reports whether the process takes tasks of a queue.
func (p *process) polls(name string) bool {
	if p.dead || p.leaving || p.frozen || time.Now().Before(p.severed) {
		return false
	}
	return name == "" || name == queue || name == queue+workflows.StepsSuffix || name == p.name
}

func (p *process) now() time.Time {
	now := time.Now()
	if !p.ahead.IsZero() && !now.Before(p.ahead) {
		now = now.Add(p.skew)
	}
	return now
}

// start executes an attempt. Its end is reported by a call, as everything else that leaves the process.
func (p *process) start(at *execution) {
	limited, stop := context.WithTimeout(context.WithValue(activityContext(), executionKey{}, at), at.options.StartToCloseTimeout)
	ctx, cancel := context.WithCancelCause(limited)
	run := &running{at, cancel}
	at.cancel = func(cause error) { cancel(cause) }
	at.tick = p.w.facts.clock()
	p.mu.Lock()
	p.attempts[run] = true
	p.mu.Unlock()
	p.w.live.Go(func() {
		defer func() {
			p.mu.Lock()
			delete(p.attempts, run)
			p.mu.Unlock()
			cancel(nil)
			stop()
		}()
		result, err := p.execute(ctx, at)
		_ = p.w.call(context.WithoutCancel(ctx), p, "report", []option{{"never", 6}, {"slow 20s", 4}}, asIs, func(what string) error {
			if what != "never" && !time.Now().Before(p.severed) {
				p.w.facts.reported(at, result, err)
				at.done = at.open()
				p.w.temporal.report(at, result, err)
			}
			return nil
		})
	})
}

func asIs(err error) error { return err }

// execute calls the activity's function with its decoded arguments.
func (p *process) execute(ctx context.Context, at *execution) (result *commonpb.Payloads, err error) {
	defer func() {
		if v := recover(); v != nil { //nolint:forbidigo // a panic of an activity is a finding
			p.w.broken = &violation{"no activity panics", fmt.Sprintf("%s: %v\n%s", at, v, debug.Stack())}
			err = errors.New("panicked")
		}
	}()
	function, ok := p.functions[at.name]
	if !ok {
		return nil, fmt.Errorf("there is no activity %s", at.name)
	}
	in := []reflect.Value{reflect.ValueOf(ctx)}
	var pointers []any
	for i := 1; i < function.Type().NumIn(); i++ {
		v := reflect.New(function.Type().In(i))
		pointers = append(pointers, v.Interface())
		in = append(in, v.Elem())
	}
	if err := payloads.FromPayloads(at.args, pointers...); err != nil {
		return nil, err
	}
	out := function.Call(in)
	if err, failed := out[len(out)-1].Interface().(error); failed {
		return nil, err
	}
	if len(out) > 1 {
		return encode(out[0].Interface()), nil
	}
	return encode(nil), nil
}

// endAll ends the attempts of the process.
func (p *process) endAll(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for run := range p.attempts {
		run.cancel(cause)
	}
}

func (p *process) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.attempts) > 0
}

// kill ends the process for good. Its attempts live on without ever hearing from outside again.
func (p *process) kill() { p.dead = true }

// freeze holds the process for a time, after which its attempts go on as if nothing had happened.
func (p *process) freeze(d time.Duration) {
	p.frozen = true
	p.w.after(d, p.name+" wakes up", func() { p.frozen = false })
}

// leave asks the process to end.
func (p *process) leave() {
	p.leaving = true
	close(p.stop)
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution {
	at, _ := ctx.Value(executionKey{}).(*execution)
	return at
}

// whoIs names the caller of a call.
func whoIs(ctx context.Context, p *process) string {
	if at := executionOf(ctx); at != nil {
		return at.String()
	}
	if p == nil {
		return "before"
	}
	return p.name
}

// reaching calls Temporal's server.
func (p *process) reaching(ctx context.Context, what string, options []option, perform func() error) error {
	away := errors.New("simulated: Temporal is away")
	return p.w.call(ctx, p, what, options, asIs, func(string) error {
		if time.Now().Before(p.severed) {
			return away
		}
		return perform()
	})
}

var asking = []option{{"failed", 8}, {"slow 3s", 4}, {"lost", 4}}

func (p *process) heartbeat(ctx context.Context, token []byte, details ...any) error {
	var at *execution
	for _, f := range p.w.temporal.flows {
		for _, a := range f.activities {
			if a.current != nil && a.current.token() == string(token) {
				at = a.current
			}
		}
	}
	encoded := encode(details...)
	return p.reaching(ctx, "heartbeat", nil, func() error {
		if at == nil || !at.open() {
			return serviceerror.NewNotFound("activity not found")
		}
		return p.w.temporal.heartbeat(at, encoded)
	})
}

func (a *execution) token() string { return a.flow.run + " " + a.String() }

func (p *process) bell(ctx context.Context, id, run string) (bell coordination.Ring, err error) {
	at := executionOf(ctx)
	err = p.reaching(ctx, "look", asking, func() error {
		f := p.w.temporal.find(id, run)
		if f == nil {
			return errNotFound
		}
		if payload, rung := f.memo[workflows.MemoDoorbell]; rung {
			if err := payloads.FromPayload(payload, &bell); err != nil {
				return err
			}
		}
		if at != nil && at.cancelled && !at.closed {
			return temporal.NewCanceledError()
		}
		return nil
	})
	return bell, err
}

func (p *process) signal(ctx context.Context, id, run, name string, arg any) error {
	return p.reaching(ctx, "signal "+name, nil, func() error {
		f := p.w.temporal.find(id, run)
		if f == nil || f.closed {
			return errNotFound
		}
		f.receive(happening{kind: signalled, name: name, arg: arg})
		return nil
	})
}

// Pending implements activities.Server.
func (p *process) Pending(ctx context.Context, id, run, activityID string) (pending bool, err error) {
	err = p.reaching(ctx, "pending", nil, func() error {
		if f := p.w.temporal.find(id, run); f != nil && !f.closed && !f.killed {
			pending = slices.ContainsFunc(f.activities, func(a *job) bool { return a.id == activityID && !a.closed })
		}
		return nil
	})
	if errors.Is(err, errGone) {
		return false, nil
	}
	return pending, err
}

// Alone implements activities.Server.
func (p *process) Alone(context.Context) bool {
	return !slices.ContainsFunc(p.w.procs, func(other *process) bool { return other != p && !other.dead })
}

// activityContext returns a context of the SDK's activity environment, through which activities learn what
// they are: the interceptor below asks the attempt of the context.
var activityContext = sync.OnceValue(func() (captured context.Context) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&describing{}}})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		captured = context.WithoutCancel(ctx)
		return nil
	}, registered("capture"))
	_, _ = env.ExecuteActivity("capture")
	return captured
})

type describing struct {
	interceptor.WorkerInterceptorBase
}

func (*describing) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &describingIn{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type describingIn struct {
	interceptor.ActivityInboundInterceptorBase
}

func (d *describingIn) Init(next interceptor.ActivityOutboundInterceptor) error {
	return d.Next.Init(&describingOut{interceptor.ActivityOutboundInterceptorBase{Next: next}})
}

type describingOut struct {
	interceptor.ActivityOutboundInterceptorBase
}

func (d *describingOut) GetInfo(ctx context.Context) activity.Info {
	at := executionOf(ctx)
	if at == nil {
		return d.Next.GetInfo(ctx)
	}
	info := activity.Info{
		TaskToken: []byte(at.token()), ActivityID: at.id, ActivityType: activity.Type{Name: at.name}, Attempt: int32(at.number),
		TaskQueue: queue, HeartbeatTimeout: at.options.HeartbeatTimeout, StartToCloseTimeout: at.options.StartToCloseTimeout,
		ScheduledTime: at.began, StartedTime: at.began,
	}
	info.WorkflowExecution.ID, info.WorkflowExecution.RunID = at.flow.id, at.flow.run
	return info
}

func (d *describingOut) GetLogger(context.Context) log.Logger { return silent{} }

func (d *describingOut) HasHeartbeatDetails(ctx context.Context) bool {
	return executionOf(ctx) != nil && executionOf(ctx).details != nil
}

func (d *describingOut) GetHeartbeatDetails(ctx context.Context, into ...any) error {
	return payloads.FromPayloads(executionOf(ctx).details, into...)
}

func (d *describingOut) GetWorkerStopChannel(ctx context.Context) <-chan struct{} {
	return executionOf(ctx).proc.stop
}

// RecordHeartbeat sends a heartbeat without waiting for the answer.
func (d *describingOut) RecordHeartbeat(ctx context.Context, details ...any) {
	at := executionOf(ctx)
	p := at.proc
	p.w.add(&event{at: at.String() + " beat", due: time.Now(), proc: p, quiet: true, silent: true, fire: func(string) {
		if !time.Now().Before(p.severed) && p.w.temporal.heartbeat(at, nil) != nil {
			at.cancel(errCancelled) // the SDK does so, too, when the server does not know the attempt any more
		}
	}})
}

// secret is what no document may have.
const secret = "sk-simulated-0123456789"

func redact(data []byte) []byte {
	return []byte(strings.ReplaceAll(string(data), secret, "[redacted]"))
}

func decodeArguments(arguments string) (m map[string]any) {
	_ = json.Unmarshal([]byte(arguments), &m)
	return m
}

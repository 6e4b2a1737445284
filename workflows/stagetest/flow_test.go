//go:build simulate

package stagetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// flow is one run of a workflow. The real workflow code runs in the SDK's test environment, whose clock
// is that of the bubble; the world plays the server to it: this is the interceptor between them.
type flow struct {
	interceptor.WorkflowInboundInterceptorBase
	w      *world
	env    *testsuite.TestWorkflowEnvironment
	parent *flow // of a session that a pipeline asks; its root has the environment
	id     string
	run    string
	first  string // run with which the workflow began
	before *flow  // that was reset to make this one
	kind   string
	input  any
	prefix string // of the labels of its activities

	out        *outbound
	now        time.Time // of the present task
	memo       map[string]*commonpb.Payload
	activities []*job
	counts     map[string]int
	timers     []workflow.Settable

	ready   []happening // for the next task
	batch   []happening // of the present task
	tasked  bool
	history []task

	childFrom int  // the first task after which a child has events, which a replay has not; 0 for none
	forced    bool // it is replayed: its activities have their results already
	killed    bool // it is terminated
	continues bool // it is to continue as new, and may leave signals to the next run
	closed    bool
	err       error
	result    converter.EncodedValue
}

// happening is an event of a run's history.
type happening struct {
	kind    happened
	index   int // of the activity or the timer
	result  *commonpb.Payloads
	failure *failurepb.Failure
	name    string // of a signal or an update
	arg     any
}

type happened int

const (
	completed happened = iota // an activity has ended
	fired                     // a timer
	signalled
	updated
	cancelled // the run is to be cancelled
)

// task is what a run has learned at once.
type task struct {
	at    time.Time
	batch []happening
}

// anchor is an activity that runs as long as the world, because otherwise the test environment would move
// its own clock to the next timer.
const anchor = "anchor"

// begin starts a run. continued is the run that it continues; replayed are the first tasks of a run that
// is reset.
func (s *server) begin(kind, id string, input any, first string, continued *flow, replayed []task) *flow {
	f := &flow{w: s.w, id: id, kind: kind, input: input, counts: map[string]int{}, memo: map[string]*commonpb.Payload{}}
	s.add(f, first)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent{})
	f.env = suite.NewTestWorkflowEnvironment()
	f.env.SetTestTimeout(10 * maxAge)
	f.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: queue})
	f.env.SetDetachedChildWait(false)
	f.env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: time.Hour,
		Interceptors:             []interceptor.WorkerInterceptor{&intercepting{root: f}, &workflows.SignalOrder{}},
	})
	if continued != nil {
		f.env.SetContinuedExecutionRunID(continued.run)
	}
	f.env.RegisterWorkflowWithOptions(sessionflow.Workflow, workflow.RegisterOptions{Name: sessionflow.Type})
	f.env.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	f.env.RegisterWorkflowWithOptions(scenarioflow.Workflow, workflow.RegisterOptions{Name: scenarioflow.Type})
	f.env.RegisterActivityWithOptions(func(context.Context) error { <-f.w.over; return nil }, registered(anchor))
	f.forced = len(replayed) > 0
	s.w.live.Go(func() {
		f.env.ExecuteWorkflow(kind, input)
		s.w.after(0, f.prefix+"ended", f.finish)
	})
	s.replay(f, replayed)
	return f
}

func (s *server) add(f *flow, first string) {
	n := len(s.flows) + 1
	f.run, f.now = fmt.Sprintf("00000000-0000-4000-8000-%012d", n), time.Now()
	if f.first = first; first == "" {
		f.first = f.run
	}
	if n > 1 {
		f.prefix = fmt.Sprintf("r%02d ", n)
	}
	s.flows = append(s.flows, f)
}

// replay gives a run the tasks of the run that it replaces. The activities that have no result in them
// are scheduled anew.
func (s *server) replay(f *flow, tasks []task) {
	if len(tasks) == 0 {
		return
	}
	s.w.after(0, f.prefix+"replay", func() {
		if s.w.broken != nil || f.closed {
			return
		}
		f.deliver(tasks[0].at, tasks[0].batch)
		if len(tasks) > 1 {
			s.replay(f, tasks[1:])
			return
		}
		s.w.after(0, f.prefix+"replayed", func() {
			f.forced = false
			again := f.ready
			f.ready = nil
			for _, h := range again {
				f.receive(h)
			}
			for _, a := range f.activities {
				switch {
				case a.closed:
				case a.cancelled:
					s.abandon(a)
				default:
					s.schedule(a)
				}
			}
		})
	})
}

// finish records the end of a run. One that continues as new is followed by the next run.
func (f *flow) finish() {
	f.closed, f.err = true, f.env.GetWorkflowError()
	for _, a := range f.activities {
		a.closed = true // no attempt follows the end
	}
	if f.killed {
		return
	}
	var next *workflow.ContinueAsNewError
	if !errors.As(f.err, &next) {
		f.w.facts.concluded(f)
		return
	}
	in := reflect.New(reflect.TypeOf(f.input))
	if err := payloads.FromPayloads(next.Input, in.Interface()); err != nil {
		f.w.breaks("a run goes on from its input", "%v", err)
		return
	}
	f.w.temporal.begin(f.kind, f.id, in.Elem().Interface(), f.first, f, nil)
}

// receive adds an event to the run's next task.
func (f *flow) receive(h happening) {
	if f.closed || f.killed {
		return
	}
	f.ready = append(f.ready, h)
	if f.tasked || f.forced {
		return
	}
	f.tasked = true
	f.w.add(&event{at: f.prefix + "task for " + f.nameOf(h), due: time.Now(), options: []option{{"slow 1s", 15}, {"slow 20s", 3}}, fire: func(string) {
		f.tasked = false
		batch := f.ready
		f.ready = nil
		f.deliver(time.Now(), batch)
	}})
}

// nameOf names a task by its first event.
func (f *flow) nameOf(h happening) string {
	switch h.kind {
	case completed:
		return f.activities[h.index].id
	case fired:
		return "a timer"
	case cancelled:
		return "cancel"
	case signalled, updated:
	}
	return h.name
}

// deliver runs a task of the workflow.
func (f *flow) deliver(at time.Time, batch []happening) {
	if f.closed || f.killed {
		return
	}
	f.now = at
	f.history = append(f.history, task{at, batch})
	f.batch = batch
	f.w.facts.delivered(f, batch)
	root := f
	if f.parent != nil {
		root = f.parent
	}
	if err := root.env.SignalWorkflowByID(f.id, deliverSignal, nil); err != nil {
		return // it has ended
	}
	for _, h := range batch {
		switch h.kind {
		case updated:
			f.w.people.update(f, h)
		case cancelled:
			root.env.CancelWorkflowByID(f.id, "")
		case completed, fired, signalled: // applied by HandleSignal
		}
	}
}

const deliverSignal = "simulated task"

// HandleSignal applies the events of a task.
func (f *flow) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if in.SignalName != deliverSignal {
		return f.Next.HandleSignal(ctx, in) // of a parent to its child
	}
	for _, h := range f.batch {
		switch h.kind {
		case completed:
			if h.index >= len(f.activities) {
				f.w.breaks("a replay is the same run", "there is no activity %d", h.index)
				break
			}
			a := f.activities[h.index]
			a.closed, a.answered = true, true
			if h.failure != nil {
				a.set.SetError(temporal.GetDefaultFailureConverter().FailureToError(h.failure))
			} else {
				a.set.SetValue(h.result)
			}
		case fired:
			if set := f.timers[h.index]; set != nil {
				f.timers[h.index] = nil
				set.SetValue(nil)
			}
		case signalled:
			if err := f.Next.HandleSignal(ctx, &interceptor.HandleSignalInput{SignalName: h.name, Arg: encode(h.arg)}); err != nil {
				return err
			}
		case updated, cancelled:
		}
	}
	f.batch = nil
	return nil
}

// ExecuteWorkflow runs the workflow in a coroutine, so that it can be terminated.
func (f *flow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (result any, err error) {
	if f.parent == nil {
		held := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * maxAge})
		f.out.Next.ExecuteActivity(held, anchor)
	}
	done := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		result, err = f.Next.ExecuteWorkflow(ctx, in)
		done = true
	})
	detached, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(detached, func() bool { return done || f.killed })
	if f.parent != nil {
		f.closed = true
	}
	for _, c := range f.children() { // the server ends them, the test environment does not
		c.killed = true
		c.abandon()
		_ = f.env.SignalWorkflowByID(c.id, deliverSignal, nil)
	}
	_ = workflow.Await(detached, func() bool { return len(f.children()) == 0 })
	if !done {
		return nil, errors.New("terminated")
	}
	return result, err
}

// children are the sessions of a pipeline that have not ended.
func (f *flow) children() (open []*flow) {
	for _, c := range f.w.temporal.flows {
		if c.parent == f && !c.closed {
			open = append(open, c)
		}
	}
	return open
}

// terminate ends a run at once.
func (f *flow) terminate() {
	if f.closed || f.killed {
		return
	}
	f.killed = true
	f.batch = nil
	_ = f.env.SignalWorkflowByID(f.id, deliverSignal, nil)
	f.abandon()
}

// leftReckoning reports whether a run has ended while a store that was away kept it from counting a step.
func (f *flow) leftReckoning() bool {
	return slices.ContainsFunc(f.activities, func(a *job) bool { return strings.HasPrefix(a.name, "Reckon") && a.closed && !a.answered })
}

// abandon closes the activities of a run that is terminated: none of them is tried again.
func (f *flow) abandon() {
	for _, a := range f.activities {
		if !a.closed {
			f.w.facts.abandoned(a)
		}
		a.closed, a.current = true, nil
	}
}

func (s *server) end() {
	for _, f := range s.flows {
		if f.parent == nil {
			f.terminate()
		}
	}
}

// intercepting makes a flow of every run in an environment: of its root, and of the sessions that a
// pipeline asks.
type intercepting struct {
	interceptor.WorkerInterceptorBase
	root  *flow
	began bool
}

func (i *intercepting) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	f := i.root
	if i.began {
		f = &flow{
			w: i.root.w, parent: i.root, id: workflow.GetInfo(ctx).WorkflowExecution.ID, kind: workflow.GetInfo(ctx).WorkflowType.Name,
			counts: map[string]int{}, memo: map[string]*commonpb.Payload{},
		}
		f.w.temporal.add(f, "")
		i.root.childFrom = cmp.Or(i.root.childFrom, len(i.root.history))
	}
	i.began = true
	f.Next = next
	return f
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (f *flow) Init(next interceptor.WorkflowOutboundInterceptor) error {
	f.out = &outbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}, flow: f}
	return f.Next.Init(f.out)
}

// outbound is what a workflow asks the server for.
type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	flow *flow
}

// Now implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) Now(workflow.Context) time.Time { return o.flow.now }

// GetInfo implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) GetInfo(ctx workflow.Context) *workflow.Info {
	info := *o.Next.GetInfo(ctx)
	info.WorkflowExecution.RunID, info.FirstRunID, info.OriginalRunID = o.flow.run, o.flow.first, o.flow.run
	if parent := o.flow.parent; parent != nil {
		info.ParentWorkflowExecution = &workflow.Execution{ID: parent.id, RunID: parent.run}
	}
	return &info
}

// UpsertMemo implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) UpsertMemo(_ workflow.Context, values map[string]any) error {
	for key, value := range values {
		payload, err := payloads.ToPayload(value)
		if err != nil {
			return err
		}
		o.flow.memo[key] = payload
	}
	return nil
}

// NewTimerWithOptions implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) NewTimerWithOptions(ctx workflow.Context, d time.Duration, options workflow.TimerOptions) workflow.Future {
	f := o.flow
	future, set := workflow.NewFuture(ctx)
	if d <= 0 {
		set.SetValue(nil)
		return future
	}
	index := len(f.timers)
	f.timers = append(f.timers, set)
	f.w.after(d, f.prefix+"timer "+options.Summary, func() {
		if f.timers[index] != nil && !f.forced {
			f.receive(happening{kind: fired, index: index})
		}
	})
	f.onCancel(ctx, future, func() {
		if f.timers[index] != nil {
			f.timers[index] = nil
			set.SetError(temporal.NewCanceledError())
		}
	})
	return future
}

// onCancel calls do when ctx is cancelled before the future is ready.
func (f *flow) onCancel(ctx workflow.Context, future workflow.Future, do func()) {
	if ctx.Done() == nil {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		over := false
		workflow.NewSelector(ctx).
			AddFuture(future, func(workflow.Future) { over = true }).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
			Select(ctx)
		if !over && !future.IsReady() {
			do()
		}
	})
}

// ExecuteActivity implements interceptor.WorkflowOutboundInterceptor.
func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	f := o.flow
	future, set := workflow.NewFuture(ctx)
	a := &job{flow: f, index: len(f.activities), name: name, args: encode(args...), options: workflow.GetActivityOptions(ctx), set: set}
	if a.id = a.options.ActivityID; a.id == "" {
		f.counts[name]++
		a.id = fmt.Sprintf("%s-%d", name, f.counts[name])
	}
	a.label = f.prefix + a.id
	f.activities = append(f.activities, a)
	f.w.facts.scheduled(a, args)
	if !f.forced {
		f.w.temporal.schedule(a)
	}
	f.onCancel(ctx, future, func() { f.w.temporal.cancel(a) })
	return future
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

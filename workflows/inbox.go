package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
)

// ErrTooEarly refuses a request that the workflow will soon accept.
var ErrTooEarly = errors.New("send the request again in a moment")

// ErrPreparing refuses a request that arrives before the workflow is prepared.
var ErrPreparing = errors.New("still being prepared: ask again in a moment, or send a signal, which waits")

// Request is the input of verbs: the text and the recipient of say, the agent of retry, the
// results of tool_results, or the question of reply and approve with the answer. An empty Agent means all agents.
type Request struct {
	Text    string                    `json:"text,omitempty"`
	Agent   string                    `json:"agent,omitempty"`
	Branch  string                    `json:"branch,omitempty"` // path of a branch of a pipeline's run
	Results []coordination.ToolResult `json:"results,omitempty"`

	Question string `json:"question,omitempty"`
	Option   int    `json:"option,omitempty"` // from 1
	Allow    *bool  `json:"allow,omitempty"`
	Note     string `json:"note,omitempty"`
	By       string `json:"by,omitempty"` // the person who replies, for the record

	malformed string   // why the JSON could not be decoded
	keys      []string // keys of the JSON object
}

// Verb is a request that people can send to a workflow, as a signal or an update.
type Verb[E any] struct {
	Name, About string

	Event E               // the event of a verb without an input
	Input func(Request) E // makes the event from an input; nil for a verb without one
	Keys  []string        // keys of the input; an input with any other key is refused

	Kept bool // an update is answered once it is on record
}

func (v Verb[E]) eventFrom(in Request) E {
	if v.Input == nil {
		return v.Event
	}
	return v.Input(in)
}

// listener is a workflow that receives verbs as events for its state machine.
type listener[E any] interface {
	// Refuse returns the reason why the event is not possible now, or nil. It changes nothing.
	Refuse(E) error
	// Step applies an event. A refused event has no effect.
	Step(E)
	// Keep blocks the handler of an update until its event is on record.
	Keep(workflow.Context)
	// Reply returns the result of an update.
	Reply() any
	// Over reports whether the run has its outcome. Signals are then left to the SDK, which logs them.
	Over() bool
	// Unread records in the timeline that a signal could not be decoded, and why.
	Unread(signal, why string)
}

// Inbox receives the verbs of a workflow.
type Inbox[E any] struct {
	ctx      workflow.Context
	noun     string // word for the workflow in errors
	listener listener[E]
	signals  []signal[E]
	arrived  *arrivals
	ignored  string
}

// Ignored describes the last signal if it could not be decoded. A later valid signal or update clears it.
func (i *Inbox[E]) Ignored() string {
	if i == nil { // an update that arrived before Listen returned
		return ""
	}
	return i.ignored
}

type signal[E any] struct {
	Verb[E]
	channel workflow.ReceiveChannel
}

// Listen registers handlers for both queries and for the verbs. Signals are handled in the order of
// their arrival, and an update after the signals of its workflow task. Registering a verb runs its
// pending updates, so the listener must be fully initialized.
func Listen[E any](ctx workflow.Context, noun string, listener listener[E], verbs []Verb[E], state, timeline any) (*Inbox[E], error) {
	arrived, ok := ctx.Value(arrivalsKey{}).(*arrivals)
	if !ok {
		return nil, errors.New("this worker does not keep the order of signals: add workflows.SignalOrder to its interceptors")
	}
	i := &Inbox[E]{ctx: ctx, noun: noun, listener: listener, arrived: arrived}
	err := workflow.SetQueryHandlerWithOptions(ctx, StateQuery, state, workflow.QueryHandlerOptions{
		Description: "The whole state: every agent or step, the results and the usage.",
	})
	if err != nil {
		return nil, err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, TimelineQuery, timeline, workflow.QueryHandlerOptions{
		Description: "The newest events, in order.",
	})
	if err != nil {
		return nil, err
	}
	for _, v := range verbs {
		i.signals = append(i.signals, signal[E]{v, workflow.GetSignalChannelWithOptions(
			ctx, v.Name, workflow.SignalChannelOptions{Description: v.About},
		)})
	}
	for _, v := range verbs { // only now: pending updates run at once, after the signals of all verbs
		update := func(ctx workflow.Context, in Request) (any, error) { return i.acceptUpdate(ctx, v, in) }
		validate := func(_ workflow.Context, in Request) error { return i.refuseUpdate(v, in) }
		err := workflow.SetUpdateHandlerWithOptions(ctx, v.Name, update, workflow.UpdateHandlerOptions{
			Description: v.About, Validator: validate,
		})
		if err != nil {
			return nil, err
		}
	}
	return i, nil
}

// acceptUpdate applies an update, after the signals that have arrived. Updates run before the loop, so a run
// that ends in the same task does not miss any. A message or request is on record before its update
// is answered; the last record has those of all updates.
func (i *Inbox[E]) acceptUpdate(ctx workflow.Context, v Verb[E], in Request) (any, error) {
	i.ReceiveAll()
	i.arrived.wake.SendAsync(true)
	if err := i.refuseUpdate(v, in); err != nil {
		return nil, err
	}
	i.ignored = ""
	i.listener.Step(v.eventFrom(in))
	reply := i.listener.Reply()
	if v.Kept {
		i.listener.Keep(ctx)
	}
	return reply, nil
}

// refuseUpdate returns the reason why an update is refused now, or nil. As long as signals wait, which a
// validator must not receive, acceptUpdate decides.
func (i *Inbox[E]) refuseUpdate(v Verb[E], in Request) error {
	refuse := func(kind, reason string) error { return temporal.NewNonRetryableApplicationError(reason, kind, nil) }
	fault, err := in.faultFor(v.Keys), i.listener.Refuse(v.eventFrom(in))
	switch {
	case fault != nil:
		return refuse(refused, fault.Error())
	case errors.Is(err, ErrPreparing):
		return refuse(TooEarly, "the "+i.noun+" is "+err.Error())
	case i.ctx.Err() != nil:
		return refuse(refused, "the "+i.noun+" is cancelled")
	case i.hasSignals():
		return nil
	case errors.Is(err, ErrTooEarly):
		return refuse(TooEarly, err.Error())
	case err != nil:
		return refuse(refused, err.Error())
	}
	return nil
}

// receiveSignal handles the oldest signal with a name. Signals with other names are left to the SDK, which
// logs them at the end of the run.
func (i *Inbox[E]) receiveSignal(name string) {
	at := slices.IndexFunc(i.signals, func(s signal[E]) bool { return s.Name == name })
	if at < 0 {
		return
	}
	s := i.signals[at]
	in := s.receiveInput()
	if err := in.faultFor(s.Keys); err != nil {
		i.ignoreSignal(s.Name, err)
		return
	}
	i.ignored = ""
	event := s.eventFrom(in)
	if err := i.listener.Refuse(event); err != nil {
		workflow.GetLogger(i.ctx).Warn("a signal is ignored", "signal", s.Name, "reason", err.Error())
	}
	i.listener.Step(event)
}

// receiveInput receives one input. It decodes the input itself, because the SDK drops one that it cannot
// decode and goes on to the next.
func (s signal[E]) receiveInput() (in Request) {
	var raw converter.RawValue
	s.channel.ReceiveAsync(&raw)
	if raw.Payload() == nil {
		return in
	}
	if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &in); err != nil {
		return Request{malformed: "it is not JSON"}
	}
	return in
}

// ignoreSignal logs and records a signal that could not be decoded, because signals have no reply.
func (i *Inbox[E]) ignoreSignal(signal string, why error) {
	workflow.GetLogger(i.ctx).Warn("a signal is ignored", "signal", signal, "reason", why.Error())
	i.ignored = signal + ": " + why.Error()
	i.listener.Unread(signal, why.Error())
}

func (i *Inbox[E]) hasSignals() bool { return len(i.arrived.names) > 0 && !i.listener.Over() }

// ReceiveAll handles all signals that have arrived, the oldest first.
func (i *Inbox[E]) ReceiveAll() {
	for i.hasSignals() {
		name := i.arrived.names[0]
		i.arrived.names = i.arrived.names[1:]
		i.receiveSignal(name)
	}
}

// Wait blocks until a future in the selector is ready, a verb arrives or the workflow is cancelled.
// It then handles everything that is ready, so that simultaneous events form one batch.
func (i *Inbox[E]) Wait(selector workflow.Selector) {
	selector.AddReceive(i.arrived.wake, func(c workflow.ReceiveChannel, _ bool) {
		c.ReceiveAsync(nil)
		i.ReceiveAll()
	})
	selector.AddReceive(i.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(i.ctx)
	for selector.HasPending() && i.ctx.Err() == nil {
		selector.Select(i.ctx)
	}
}

// GoOn makes the inbox of a cancelled workflow receive further verbs, with another context.
func (i *Inbox[E]) GoOn(ctx workflow.Context) { i.ctx = ctx }

// SignalOrder is the interceptor that keeps the order in which signals arrive for Inbox. The SDK has
// a channel for each name, so their order would be lost before a workflow reads them. Every worker,
// replayer and test environment that runs a workflow with an Inbox needs it.
type SignalOrder struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*SignalOrder) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &arrivals{
		WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next},
		wake:                           workflow.NewNamedBufferedChannel(ctx, "requests", 1),
	}
}

// arrivals has the order of the signals of one run that wait in the SDK's channels.
type arrivals struct {
	interceptor.WorkflowInboundInterceptorBase
	names []string         // the oldest first
	wake  workflow.Channel // wakes the loop after a signal or an update; if it is full, it will anyway
}

type arrivalsKey struct{}

// HandleSignal is called before the coroutines of a workflow task run, also before the first one.
func (a *arrivals) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if err := a.Next.HandleSignal(ctx, in); err != nil {
		return err
	}
	a.names = append(a.names, in.SignalName)
	a.wake.SendAsync(true)
	return nil
}

// ExecuteWorkflow passes the order to Listen.
func (a *arrivals) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return a.Next.ExecuteWorkflow(workflow.WithValue(ctx, arrivalsKey{}, a), in)
}

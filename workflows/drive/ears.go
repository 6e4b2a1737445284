package drive

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// ErrPreparing is returned by a listener before the workflow is prepared.
var ErrPreparing = errors.New("still being prepared: ask again in a moment, or send a signal, which waits")

// Request is the input of the verbs that take one: the text and the recipient of say,
// the agent of retry. An empty Agent stands for all agents.
type Request struct {
	Text  string `json:"text,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// Verb is one thing that people can ask of a workflow, by signal or update.
type Verb[E any] struct {
	Name, About string

	Event E               // the event of a verb without an input
	Input func(Request) E // the event of an input; nil for a verb without one
}

// listener is a workflow that takes verbs as the events of its state machine.
type listener[E any] interface {
	// Refuse returns why the event makes no sense now, or nil. It changes nothing.
	Refuse(E) error
	// Step takes an event. One that was refused has no effect.
	Step(E)
	// Reply returns the result of an update.
	Reply() any
}

// Ears receives the verbs of a workflow.
type Ears[E any] struct {
	ctx      workflow.Context
	noun     string // of the workflow, in errors
	listener listener[E]
	signals  []signal[E]
	updated  workflow.Channel // wakes the loop after an update
}

type signal[E any] struct {
	Verb[E]
	channel workflow.ReceiveChannel
}

// Listen registers the handlers of both queries, and the verbs in the order in which
// signals that arrive together are received: the order of their sending is unknown.
// Registering a verb runs its updates that have arrived, so the listener must be complete.
func Listen[E any](ctx workflow.Context, noun string, listener listener[E], verbs []Verb[E], state, timeline any) (*Ears[E], error) {
	e := &Ears[E]{ctx: ctx, noun: noun, listener: listener, updated: workflow.NewNamedBufferedChannel(ctx, "updated", 1)}
	err := workflow.SetQueryHandlerWithOptions(ctx, StateQuery, state, workflow.QueryHandlerOptions{
		Description: "The whole state: who is where, what has ended, what it cost.",
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
		e.signals = append(e.signals, signal[E]{v, workflow.GetSignalChannelWithOptions(
			ctx, v.Name, workflow.SignalChannelOptions{Description: v.About},
		)})
		// Handlers without a parameter ignore any input.
		var update any = func(workflow.Context) (any, error) { return e.accept(v.Event), nil }
		var validate any = func(workflow.Context) error { return e.refusal(v.Event) }
		if v.Input != nil {
			update = func(_ workflow.Context, in Request) (any, error) { return e.accept(v.Input(in)), nil }
			validate = func(_ workflow.Context, in Request) error { return e.refusal(v.Input(in)) }
		}
		err := workflow.SetUpdateHandlerWithOptions(ctx, v.Name, update, workflow.UpdateHandlerOptions{
			Description: v.About, Validator: validate,
		})
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// accept never blocks, so every update is answered before its run ends. Updates run
// before the loop does, so a run that ends in the same task misses none.
func (e *Ears[E]) accept(event E) any {
	e.listener.Step(event)
	e.updated.SendAsync(true) // a full channel wakes the loop, too
	return e.listener.Reply()
}

// refusal is the validator of updates.
func (e *Ears[E]) refusal(event E) error {
	refuse := func(kind, reason string) error { return temporal.NewNonRetryableApplicationError(reason, kind, nil) }
	err := e.listener.Refuse(event)
	switch {
	case errors.Is(err, ErrPreparing):
		return refuse(TooEarly, "the "+e.noun+" is "+err.Error())
	case e.ctx.Err() != nil:
		return refuse(refused, "the "+e.noun+" is cancelled")
	case err != nil:
		return refuse(refused, err.Error())
	}
	return nil
}

// receive takes one signal, and returns false without one.
func (e *Ears[E]) receive(s signal[E]) bool {
	var in Request
	event, input := s.Event, any(nil)
	if s.Input != nil {
		input = &in
	}
	if !s.channel.ReceiveAsync(input) { // drops and logs an input that cannot be decoded
		return false
	}
	if s.Input != nil {
		event = s.Input(in)
	}
	if err := e.listener.Refuse(event); err != nil {
		workflow.GetLogger(e.ctx).Warn("a signal is ignored", "signal", s.Name, "reason", err.Error())
	}
	e.listener.Step(event)
	return true
}

// ReceiveAll takes the signals that have arrived.
func (e *Ears[E]) ReceiveAll() {
	for _, s := range e.signals {
		for e.receive(s) {
			continue
		}
	}
}

// Wait blocks until a future of the selector, a verb or cancellation is ready, and
// handles everything that is ready by then: events that arrive together are one batch.
func (e *Ears[E]) Wait(selector workflow.Selector) {
	for _, s := range e.signals {
		selector.AddReceive(s.channel, func(workflow.ReceiveChannel, bool) { e.receive(s) })
	}
	selector.AddReceive(e.updated, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	selector.AddReceive(e.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	selector.Select(e.ctx)
	for selector.HasPending() && e.ctx.Err() == nil {
		selector.Select(e.ctx)
	}
}

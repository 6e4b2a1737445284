package session

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// verb is one thing that people can ask of a session, by signal or update.
type verb struct {
	name, about string

	// receive takes the next signal; false if there is none.
	receive func(workflow.ReceiveChannel) (coordination.Event, bool)

	// update and validate are the handlers of the update.
	update, validate any
}

// listen registers what people can ask. Each registration lets updates run that
// came before it, so what they look at must be there.
func (s *session) listen() error {
	s.asked = workflow.NewNamedBufferedChannel(s.ctx, "asked", 1)
	for _, v := range s.verbs() {
		s.signals = append(s.signals, signal{verb: v, channel: workflow.GetSignalChannelWithOptions(
			s.ctx, v.name, workflow.SignalChannelOptions{Description: v.about})})
		err := workflow.SetUpdateHandlerWithOptions(s.ctx, v.name, v.update, workflow.UpdateHandlerOptions{
			Description: v.about, Validator: v.validate,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// verbs are in the order in which signals that arrive at the same moment are
// taken; the order of their sending is not known then. Nothing said is lost to
// a pause or an end, and of a pause and a resume the pause stands: it costs
// nothing to wait.
func (s *session) verbs() []verb {
	return []verb{
		with(s, drive.SaySignal, "Say something to all agents, or to one: {text, agent?}.",
			func(in drive.SayInput) coordination.Event { return coordination.Said{Agent: in.Agent, Text: in.Text} }),
		with(s, drive.RetrySignal, "Run the failed step of an agent again, of all if none is named: {agent?}.",
			func(in RetryInput) coordination.Event { return coordination.Retry{Agent: in.Agent} }),
		bare(s, drive.ResumeSignal, "Go on after a pause.", coordination.Resume{}),
		bare(s, drive.PauseSignal, "Suspend what runs, without losing its work, and launch nothing.", coordination.Pause{}),
		bare(s, drive.FinishSignal, "Decide now, with the answers and votes that are there.", coordination.Finish{}),
	}
}

// with is a verb that takes an input.
func with[T any](s *session, name, about string, event func(T) coordination.Event) verb {
	return verb{
		name: name, about: about,
		receive: func(c workflow.ReceiveChannel) (coordination.Event, bool) {
			var in T
			ok := c.ReceiveAsync(&in) // drops, and logs, what cannot be decoded
			return event(in), ok
		},
		update:   func(_ workflow.Context, in T) (State, error) { return s.accept(event(in)), nil },
		validate: func(_ workflow.Context, in T) error { return s.refusal(event(in)) },
	}
}

// bare is a verb without an input; one that is given is not looked at.
func bare(s *session, name, about string, event coordination.Event) verb {
	return verb{
		name: name, about: about,
		receive:  func(c workflow.ReceiveChannel) (coordination.Event, bool) { return event, c.ReceiveAsync(nil) },
		update:   func(workflow.Context) (State, error) { return s.accept(event), nil },
		validate: func(workflow.Context) error { return s.refusal(event) },
	}
}

// refusal is why an update is refused; nil if it is accepted. It changes nothing.
func (s *session) refusal(event coordination.Event) error {
	switch {
	case s.core == nil:
		return temporal.NewNonRetryableApplicationError(
			"the session is still being prepared: ask again in a moment, or send a signal, which waits", drive.TooEarly, nil)
	case s.ctx.Err() != nil:
		return temporal.NewNonRetryableApplicationError("the session is cancelled", drive.Refused, nil)
	}
	if err := s.core.Refuse(event); err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), drive.Refused, nil)
	}
	return nil
}

// accept steps an update's event and has the loop carry out what follows. It
// never blocks, so no update is unanswered when a run ends. Updates run before
// the loop does, so none is missed by a run that ends in the same task.
func (s *session) accept(event coordination.Event) State {
	s.core.Step(event)
	s.take()
	s.asked.SendAsync(true) // full: the loop will run anyway
	now := s.stateNow()
	now.Query = "" // it may be large, and an update's result is in the history for ever
	return now
}

// signal is a verb's channel.
type signal struct {
	verb
	channel workflow.ReceiveChannel
}

// hear takes one signal; false if there is none. One that makes no sense is
// logged, and the core ignores it.
func (s *session) hear(sig signal) bool {
	event, ok := sig.receive(sig.channel)
	if !ok {
		return false
	}
	if err := s.core.Refuse(event); err != nil {
		workflow.GetLogger(s.ctx).Warn("a signal is ignored", "signal", sig.name, "reason", err.Error())
	}
	s.core.Step(event)
	return true
}

// hearAll takes the signals that have come while nobody looked.
func (s *session) hearAll() {
	for _, sig := range s.signals {
		for s.hear(sig) {
			s.take()
		}
	}
}

package pipeline

import (
	"go.temporal.io/sdk/workflow"

	"conclave/engine/pipeline"
	"conclave/workflows/drive"
)

// pipelineSignal is one thing that people can ask of a run, by signal or update.
type pipelineSignal struct {
	name    string
	channel workflow.ReceiveChannel

	// receive takes the next signal; false if there is none.
	receive func(workflow.ReceiveChannel) (pipeline.Event, bool)
}

// listen registers what people can ask, in the order in which signals that arrive
// at the same moment are taken.
func (p *pipelineRun) listen() error {
	p.asked = workflow.NewNamedBufferedChannel(p.ctx, "asked", 1)
	say := pipelineSignal{name: drive.SaySignal, receive: func(c workflow.ReceiveChannel) (pipeline.Event, bool) {
		var in drive.SayInput
		ok := c.ReceiveAsync(&in)
		return pipeline.Said{Text: in.Text}, ok
	}}
	err := p.register(say, "Say something to the steps: {text}.",
		func(_ workflow.Context, in drive.SayInput) (State, error) {
			return p.accept(pipeline.Said{Text: in.Text}), nil
		},
		func(_ workflow.Context, in drive.SayInput) error { return p.refusal(pipeline.Said{Text: in.Text}) })
	if err != nil {
		return err
	}
	for _, v := range []struct {
		name, about string
		event       pipeline.Event
	}{
		{drive.RetrySignal, "Go on with the step that failed, in a run that is parked.", pipeline.Retry{}},
		{drive.ResumeSignal, "Go on after a pause.", pipeline.Resume{}},
		{drive.PauseSignal, "Suspend what runs, without losing its work, and launch nothing.", pipeline.Pause{}},
	} {
		bare := pipelineSignal{name: v.name, receive: func(c workflow.ReceiveChannel) (pipeline.Event, bool) { return v.event, c.ReceiveAsync(nil) }}
		err := p.register(bare, v.about,
			func(workflow.Context) (State, error) { return p.accept(v.event), nil },
			func(workflow.Context) error { return p.refusal(v.event) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pipelineRun) register(sig pipelineSignal, about string, update, validate any) error {
	sig.channel = workflow.GetSignalChannelWithOptions(p.ctx, sig.name, workflow.SignalChannelOptions{Description: about})
	p.signals = append(p.signals, sig)
	return workflow.SetUpdateHandlerWithOptions(p.ctx, sig.name, update, workflow.UpdateHandlerOptions{Description: about, Validator: validate})
}

// accept steps an update's event and has the loop carry out what follows. It never
// blocks, so no update is unanswered when a run ends.
func (p *pipelineRun) accept(event pipeline.Event) State {
	p.core.Step(event)
	p.asked.SendAsync(true) // full: the loop will run anyway
	return p.glance()
}

// hear takes one signal; false if there is none. One that makes no sense is logged,
// and the core ignores it.
func (p *pipelineRun) hear(sig pipelineSignal) bool {
	event, ok := sig.receive(sig.channel)
	if !ok {
		return false
	}
	if err := p.core.Refuse(event); err != nil {
		workflow.GetLogger(p.ctx).Warn("a signal is ignored", "signal", sig.name, "reason", err.Error())
	}
	p.core.Step(event)
	return true
}

// hearAll takes the signals that have come while nobody looked.
func (p *pipelineRun) hearAll() {
	for _, sig := range p.signals {
		for p.hear(sig) {
			continue
		}
	}
}

package scenario

import (
	"go.temporal.io/sdk/workflow"

	"conclave/engine/scenario"
	"conclave/workflows/drive"
)

// scenarioSignal is one thing that people can ask of a run, by signal or update.
type scenarioSignal struct {
	name    string
	channel workflow.ReceiveChannel
	event   scenario.Event
	kind    string // in the timeline
}

// listen registers what people can ask, in the order in which signals that arrive
// at the same moment are taken.
func (s *scenarioRun) listen() error {
	s.asked = workflow.NewNamedBufferedChannel(s.ctx, "asked", 1)
	for _, v := range []struct {
		about string
		sig   scenarioSignal
	}{
		{"Go on after a pause.", scenarioSignal{name: drive.ResumeSignal, event: scenario.Resume{}, kind: "resumed"}},
		{"Suspend the step that runs, without losing its work, and launch nothing.", scenarioSignal{name: drive.PauseSignal, event: scenario.Pause{}, kind: "paused"}},
	} {
		sig := v.sig
		sig.channel = workflow.GetSignalChannelWithOptions(s.ctx, sig.name, workflow.SignalChannelOptions{Description: v.about})
		s.signals = append(s.signals, sig)
		update := func(workflow.Context) (State, error) {
			s.take(sig)
			s.asked.SendAsync(true) // full: the loop will run anyway
			now := s.state()
			now.Steps, now.Plan = []scenario.Result{}, []scenario.StepRef{} // an update's result is in the history for ever
			return now, nil
		}
		err := workflow.SetUpdateHandlerWithOptions(s.ctx, sig.name, update, workflow.UpdateHandlerOptions{
			Description: v.about, Validator: func(workflow.Context) error { return s.refusal(sig.event) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// take steps the core with what was asked.
func (s *scenarioRun) take(sig scenarioSignal) {
	if err := s.core.Refuse(sig.event); err != nil {
		workflow.GetLogger(s.ctx).Warn("a signal is ignored", "signal", sig.name, "reason", err.Error())
		return
	}
	s.core.Step(sig.event)
	s.note(sig.kind, "", "the run was "+sig.kind)
	s.stale = true
}

// hear takes one signal; false if there is none.
func (s *scenarioRun) hear(sig scenarioSignal) bool {
	if !sig.channel.ReceiveAsync(nil) {
		return false
	}
	s.take(sig)
	return true
}

// hearAll takes the signals that have come while nobody looked.
func (s *scenarioRun) hearAll() {
	for _, sig := range s.signals {
		for s.hear(sig) {
			continue
		}
	}
}

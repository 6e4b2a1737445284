package scenario

import (
	"errors"

	"conclave/engine/llm"
)

// Event is an input of State.Step. An event of a launch other than the running one is
// stale and changes nothing.
//
//sumtype:decl
type Event interface{ event() }

// Ended reports the result of a step: Pass or Fail, or Errored without a verdict. The
// state adds the step's ID and title.
type Ended struct {
	Launch string
	Result Result
}

// Suspended reports a step that was stopped.
type Suspended struct {
	Launch string
	Token  string // empty if the step left nothing to resume
	Usage  llm.Usage
}

// Pause suspends the running step and holds back launches.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Cancel ends the run.
type Cancel struct {
	DurationMS int64 // of the running step
}

func (Ended) event()     {}
func (Suspended) event() {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Cancel) event()    {}

// Command is an output of State.Drain, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a step.
type Launch struct {
	ID       string    `json:"id"` // unique in the run: "l1", "l2", …
	Step     StepRef   `json:"step"`
	Previous *Previous `json:"previous,omitempty"` // nil for the first step

	// ResumeFrom is the execution token of the attempt that this one continues.
	ResumeFrom string `json:"resume_from,omitempty"`

	// Uncounted is set if no event has counted the usage of that attempt: this one reports
	// it as well.
	Uncounted bool `json:"uncounted,omitempty"`
}

// Previous is the part of the previous step that a step reads.
type Previous struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
}

// Stop ends the running step.
type Stop struct{ ID string }

// Record rewrites result.json.
type Record struct{}

// Done ends the run; no step is running.
type Done struct{ Status Status }

func (Launch) command() {}
func (Stop) command()   {}
func (Record) command() {}
func (Done) command()   {}

// Refuse returns the reason why a person's request has no effect now. It is nil for
// other events.
func (s *State) Refuse(event Event) error {
	pause, resume := event == Pause{}, event == Resume{}
	_, cancel := event.(Cancel)
	switch {
	case s.Over && (pause || resume || cancel):
		return errors.New("the run is over")
	case pause && s.Paused:
		return errors.New("the run is paused already")
	case resume && !s.Paused:
		return errors.New("the run is not paused")
	}
	return nil
}

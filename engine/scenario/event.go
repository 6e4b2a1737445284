package scenario

import (
	"errors"

	"conclave/engine/llm"
)

// LaunchID names one launch of a step within a run. An event of another launch
// than the one that runs changes nothing.
type LaunchID string

// Event is something that happened. Step takes it; it never fails.
//
//sumtype:decl
type Event interface{ event() }

// Reported says that a step's agent came to a verdict.
type Reported struct {
	Launch     LaunchID
	Status     Status // Pass or Fail
	Evidence   []string
	Error      *string
	Summary    string
	Warnings   []string
	DurationMS int64
	Usage      llm.Usage
}

// Broke says that a step ended without a verdict. Token is its execution token.
type Broke struct {
	Launch     LaunchID
	Token      string
	Reason     string
	Evidence   []string
	DurationMS int64
	Usage      llm.Usage
}

// Suspended says that a step was ended from outside.
type Suspended struct {
	Launch LaunchID
	Token  string
	Usage  llm.Usage
}

// Pause suspends what runs and holds back what would be launched.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Cancel ends the run. DurationMS is how long its step was worked on.
type Cancel struct{ DurationMS int64 }

func (Reported) event()  {}
func (Broke) event()     {}
func (Suspended) event() {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Cancel) event()    {}

// Command is something the driver must carry out, once, in the order given.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a step.
type Launch struct {
	ID       LaunchID  `json:"id"`
	Step     StepRef   `json:"step"`
	Previous *Previous `json:"previous,omitempty"` // nil for the first step

	// ResumeFrom is the execution token of the attempt that this one goes on with.
	ResumeFrom string `json:"resume_from,omitempty"`
}

// Previous is all that a step is told of the one before it.
type Previous struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
}

// Stop ends the running step.
type Stop struct{ ID LaunchID }

// Record has result.json rewritten.
type Record struct{}

// Done ends the run. It comes when no step runs any more.
type Done struct{ Status Status }

func (Launch) command() {}
func (Stop) command()   {}
func (Record) command() {}
func (Done) command()   {}

// Refuse says why an event that a person asks for makes no sense now; nil if it
// does, and for every other event.
func (s *State) Refuse(event Event) error {
	switch event.(type) {
	case Pause:
		switch {
		case s.Over:
			return errors.New("the run is over")
		case s.Paused:
			return errors.New("the run is paused already")
		}
	case Resume:
		switch {
		case s.Over:
			return errors.New("the run is over")
		case !s.Paused:
			return errors.New("the run is not paused")
		}
	case Cancel:
		if s.Over {
			return errors.New("the run is over")
		}
	case Reported, Broke, Suspended:
	}
	return nil
}

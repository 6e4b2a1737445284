package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/engine/llm"
)

// Event is an input of State.Step. An event of a launch other than the running one is
// stale and changes nothing.
//
//sumtype:decl
type Event interface{ isEvent() }

// Ended reports the result of a step: Pass or Fail, or Errored if there is no verdict. The
// state adds the step's ID and title.
type Ended struct {
	Launch string
	Result Result
}

// Suspended reports a step that was stopped or has to be launched again.
type Suspended struct {
	Launch string
	Token  string // empty if the step left nothing to resume
	Usage  llm.Usage

	DurationMS int64     // time since its launch
	AwaySince  time.Time // when the model's server ceased to reply; zero if it replied
}

// Said is a message of a person to the running step or, if none runs, to the next one.
type Said struct{ Text string }

// Pause suspends the running step and holds back launches.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Cancel ends the running step and skips all others except those of Plan.After.
type Cancel struct {
	DurationMS int64 // time of the running step
}

func (Ended) isEvent()     {}
func (Suspended) isEvent() {}
func (Said) isEvent()      {}
func (Pause) isEvent()     {}
func (Resume) isEvent()    {}
func (Cancel) isEvent()    {}

// Command is an output of State.Drain, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ isCommand() }

// Launch starts a step.
type Launch struct {
	ID       string    `json:"id"` // unique in the run: "l1", "l2", …
	Step     StepRef   `json:"step"`
	Previous *Previous `json:"previous,omitempty"` // nil for the first step

	// Attempt is the number of the step's attempt. Since is the number of the attempt in
	// which its conversation began. Both are 0 in runs of older workers.
	Attempt int `json:"attempt,omitempty"`
	Since   int `json:"since,omitempty"`

	// Limits bound the step. Tightened names those that are lower than the step's own because
	// of the run's limits.
	Limits    Limits   `json:"limits,omitzero"`
	Tightened []string `json:"tightened,omitempty"`

	Heard int `json:"heard,omitempty"` // number of the last message that went to an earlier step

	// ResumeFrom is the execution token of the attempt that this one continues.
	ResumeFrom string `json:"resume_from,omitempty"`

	// Uncounted is set if no event has counted the usage of that attempt; this launch then
	// reports it as well.
	Uncounted bool `json:"uncounted,omitempty"`

	// AwaySince is when the model server stopped replying to that attempt; it is zero if the server replied.
	AwaySince time.Time `json:"away_since,omitzero"`
}

// Previous is the part of the previous step that the next step reads.
type Previous struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
}

// Stop ends the running step.
type Stop struct{ ID string }

// Keep writes a message to the store, before any command that announces it.
type Keep struct {
	Number int    `json:"number"` // number of the event, from 1
	Text   string `json:"text"`
}

// Ring tells the running step and the next one that messages up to a number exist.
type Ring struct{ Messages int }

// Record rewrites result.json.
type Record struct{}

// Done ends the run; no step is running.
type Done struct{ Status Status }

func (Launch) isCommand() {}
func (Stop) isCommand()   {}
func (Keep) isCommand()   {}
func (Ring) isCommand()   {}
func (Record) isCommand() {}
func (Done) isCommand()   {}

// Refuse returns the reason why a person's request has no effect now. It returns nil for other events.
func (s *State) Refuse(event Event) error {
	pause, resume := event == Pause{}, event == Resume{}
	_, cancel := event.(Cancel)
	said, says := event.(Said)
	switch {
	case s.Over && (pause || resume || cancel || says):
		return errors.New("the run is over")
	case says:
		return s.refuseSaid(said.Text)
	case cancel && slices.ContainsFunc(s.Results, func(r Result) bool { return r.Status == Cancelled }):
		return errors.New("the run is cancelled already")
	case pause && s.Paused:
		return errors.New("the run is paused already")
	case resume && !s.Paused:
		return errors.New("the run is not paused")
	}
	return nil
}

// Bounds of the messages of people.
const (
	maxMessage  = 4 << 10 // most bytes of one message
	maxMessages = 100     // most messages of a run
)

func (s *State) refuseSaid(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("the text is empty")
	case len(text) > maxMessage:
		return fmt.Errorf("the text has %d bytes, at most %d are accepted", len(text), maxMessage)
	case s.Said >= maxMessages:
		return fmt.Errorf("the run has %d messages, the most that it accepts", maxMessages)
	}
	return nil
}

func (s *State) drainMessages() []Command {
	var commands []Command
	for _, m := range s.Messages {
		commands = append(commands, m)
	}
	s.Messages = nil
	if s.Launched != nil && !s.Stopped {
		commands = append(commands, s.announceMessages()...)
	}
	return commands
}

func (s *State) announceMessages() []Command {
	if s.Announced == s.Said {
		return nil
	}
	s.Announced = s.Said
	return []Command{Ring{s.Said}}
}

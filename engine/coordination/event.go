package coordination

import "conclave/engine/llm"

// LaunchID names one launch of a step within a run, "l1", "l2", …; it is minted
// by Drain and comes back on the event that ends the step. An event whose
// launch is not the one running for its agent is stale and changes nothing.
type LaunchID string

// Event is something that happened. Step takes it; it never fails.
//
//sumtype:decl
type Event interface{ event() }

// Answered says that a step ended with a new answer.
type Answered struct {
	Launch LaunchID
	Step   int    // the number the step claimed, the NNN of its directory
	Seen   []Seen // what was shown to it
	Usage  llm.Usage
}

// Voted says that a step ended with a vote.
type Voted struct {
	Launch      LaunchID
	Step        int
	Target      string // agent ID
	TargetLabel string // the revision named or shown, as in agent2.1
	Reason      string
	Seen        []Seen
	Usage       llm.Usage
}

// Failed says that a step ended without an action, its retries exhausted.
// Step is 0 when not even a number was claimed.
type Failed struct {
	Launch LaunchID
	Step   int
	Cause  Failure
	Usage  llm.Usage
}

// Stopped says that a step was ended from outside, without a fault of its own:
// what it spent counts, and nothing else.
type Stopped struct {
	Launch LaunchID
	Usage  llm.Usage
}

// TimeUp says that the session's time ran out.
type TimeUp struct{}

// Finish asks for a decision now with what is there.
type Finish struct{}

func (Answered) event() {}
func (Voted) event()    {}
func (Failed) event()   {}
func (Stopped) event()  {}
func (TimeUp) event()   {}
func (Finish) event()   {}

// Seen is one entry of a vote's seen_steps: the newest answer step of Agent
// that was shown to the step.
type Seen struct {
	Agent string `json:"agent"`
	Step  int    `json:"step"`
}

// Failure is why an agent failed, in a stable type and a sentence.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

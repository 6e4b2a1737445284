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

// Answered says that a step ended with a new answer. Of a presenting step it is
// the final answer.
type Answered struct {
	Launch LaunchID
	Step   int    // the number the step claimed, the NNN of its directory
	Seen   []Seen // what was shown to it, at launch and while it worked
	Heard  int    // number of the last human message it was told
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
	Heard       int
	Usage       llm.Usage
}

// Stopped says that a step ended with a stop: the agent has done its part, or
// can do no more.
type Stopped struct {
	Launch  LaunchID
	Step    int
	Status  StopStatus
	Summary string
	Seen    []Seen
	Heard   int
	Usage   llm.Usage
}

// Failed says that a step ended without an action, its retries exhausted.
// Step is 0 when not even a number was claimed. Token is its execution token.
type Failed struct {
	Launch LaunchID
	Step   int
	Cause  Failure
	Token  string
	Usage  llm.Usage
}

// Suspended says that a step was ended from outside, without a fault of its
// own: what it spent counts, and nothing else. Token is its execution token.
type Suspended struct {
	Launch LaunchID
	Step   int
	Token  string
	Usage  llm.Usage
}

// Restarted says that a step ended itself, at a safe point and without an
// action, to begin again with what is new.
type Restarted struct {
	Launch LaunchID
	Step   int
	Usage  llm.Usage
}

// Exhausted says that a step ended without an action because its allowance was
// spent.
type Exhausted struct {
	Launch LaunchID
	Step   int
	Usage  llm.Usage
}

// Evaluated says that an evaluating step has judged the final answer. Again
// asks for another attempt of the team, for the reason given.
type Evaluated struct {
	Launch LaunchID
	Step   int
	Again  bool
	Reason string
	Usage  llm.Usage
}

// TimeShort says that the session's time is nearly over.
type TimeShort struct{}

// TimeUp says that the session's time ran out.
type TimeUp struct{}

// Finish asks for a decision now with what is there.
type Finish struct{}

// Pause suspends what runs and holds back what would be launched.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Retry launches the failed step of Agent again; of every failed agent if Agent
// is empty.
type Retry struct{ Agent string }

// Said is what a person says to Agent; to everybody if Agent is empty.
type Said struct{ Agent, Text string }

func (Answered) event()  {}
func (Voted) event()     {}
func (Stopped) event()   {}
func (Failed) event()    {}
func (Suspended) event() {}
func (Restarted) event() {}
func (Exhausted) event() {}
func (Evaluated) event() {}
func (TimeShort) event() {}
func (TimeUp) event()    {}
func (Finish) event()    {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Retry) event()     {}
func (Said) event()      {}

// ending is an event that ends a step.
type ending interface {
	Event
	ends() (launch LaunchID, step int, usage llm.Usage)
}

func (e Answered) ends() (LaunchID, int, llm.Usage)  { return e.Launch, e.Step, e.Usage }
func (e Voted) ends() (LaunchID, int, llm.Usage)     { return e.Launch, e.Step, e.Usage }
func (e Stopped) ends() (LaunchID, int, llm.Usage)   { return e.Launch, e.Step, e.Usage }
func (e Failed) ends() (LaunchID, int, llm.Usage)    { return e.Launch, e.Step, e.Usage }
func (e Suspended) ends() (LaunchID, int, llm.Usage) { return e.Launch, e.Step, e.Usage }
func (e Restarted) ends() (LaunchID, int, llm.Usage) { return e.Launch, e.Step, e.Usage }
func (e Exhausted) ends() (LaunchID, int, llm.Usage) { return e.Launch, e.Step, e.Usage }
func (e Evaluated) ends() (LaunchID, int, llm.Usage) { return e.Launch, e.Step, e.Usage }

// request is an event that a person asks for, by its public name.
type request interface {
	Event
	name() string
}

func (Finish) name() string { return "finish" }
func (Pause) name() string  { return "pause" }
func (Resume) name() string { return "resume" }
func (Retry) name() string  { return "retry" }
func (Said) name() string   { return "say" }

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

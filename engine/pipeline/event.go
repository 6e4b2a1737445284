package pipeline

import "conclave/engine/llm"

// LaunchID names one launch of a segment within a run, "l1", "l2", …. An event
// whose launch is not the one that runs is stale and changes nothing.
type LaunchID string

// Event is something that happened. Step takes it; it never fails.
//
//sumtype:decl
type Event interface{ event() }

// Ended says that a segment came to its end.
type Ended struct {
	Launch LaunchID
	Number int    // of the segment's directory
	Status Status // Completed, MaxIterations or CallPending
	Action Action // its own, if any
	To     string // of the action

	// Messages is the SHA-256, in hex, of the blob with the conversation of a step
	// that called another one; Iterations is how many model calls it has made, in
	// all its segments.
	Messages   string
	Iterations int

	Text      string // the beginning of the step's text, for people; cut
	Said      bool   // whether there is any text
	Workspace string // hash of the manifest of its files; empty for none
	Heard     int    // number of the last human message it was told
	Usage     llm.Usage
}

// Action is what a step decided for itself.
type Action string

// The actions of steps.
const (
	NoAction Action = ""
	Jump     Action = "jump"
	Call     Action = "call"
)

// Broke says that a segment failed, its retries exhausted. Number is 0 if it had
// none yet. Token is its execution token.
type Broke struct {
	Launch LaunchID
	Number int
	Token  string
	Cause  Failure
	Usage  llm.Usage
}

// Failure is why a segment failed, in a stable type and a sentence.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Suspended says that a segment was ended from outside: what it spent counts, and
// nothing else.
type Suspended struct {
	Launch LaunchID
	Number int
	Token  string
	Usage  llm.Usage
}

// Pause suspends what runs and holds back what would be launched.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Retry goes on with the step that failed, in a run that is parked.
type Retry struct{}

// Said is what a person says to the steps.
type Said struct{ Text string }

// Cancel ends the run.
type Cancel struct{}

func (Ended) event()     {}
func (Broke) event()     {}
func (Suspended) event() {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Retry) event()     {}
func (Said) event()      {}
func (Cancel) event()    {}

// request is an event that a person asks for.
type request interface {
	Event
	request()
}

func (Pause) request()  {}
func (Resume) request() {}
func (Retry) request()  {}
func (Said) request()   {}
func (Cancel) request() {}

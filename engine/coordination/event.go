package coordination

import (
	"maps"
	"slices"
	"time"

	"conclave/engine/llm"
)

// LaunchID names a launch within a session: "l1", "l2", …. Drain assigns it, and the event
// that ends the step contains it. Events of launches that are not running change nothing.
type LaunchID string

// Event is an input of State.Step.
//
//sumtype:decl
type Event interface{ event() }

// End has the fields of all events that end a step.
type End struct {
	Launch LaunchID
	Step   int // the number that the step claimed, the NNN of its directory; 0 if it claimed none
	Usage  llm.Usage
	Told   []Seen // the answers shown to a step without an action, at its launch and later

	LongestCall float64 // longest model call of the step or known to it, in seconds; 0 if unknown

	// AwaySince is when the model server stopped replying, if the step ended in an outage.
	AwaySince time.Time
}

// Answered ends a step with a new answer, or a presenting step with the final answer.
type Answered struct {
	End
	Seen   []Seen   // the answers shown to the step, at its launch and later
	Heard  int      // number of the last human message it received
	Digest Digest   // digest of the answer
	Checks []string // IDs of the checks handed in with it
}

// Checked ends a Check. Verdicts has a character for each of its checks: '1' if the answer
// passes it, '0' if it fails, and another if the check could not be run. Checks without a
// character could not be run either.
type Checked struct {
	ID       LaunchID
	Verdicts string
}

// Voted ends a step with a vote.
type Voted struct {
	End
	Target      string // agent ID
	TargetLabel string // the revision named or shown, as in agent2.1
	Reason      string
	Seen        []Seen
	Heard       int
	Confidence  *float64 // confidence from 0 to 1; nil if the voter gave none
}

// Stopped ends a step with a stop: the agent has done its part, or is blocked.
type Stopped struct {
	End
	Status  StopStatus
	Summary string
	Seen    []Seen
	Heard   int
}

// Failed ends a step without an action after its last retry. Token is its execution token.
type Failed struct {
	End
	Cause  Failure
	Token  string
	Outage Outage // outage of the model's server; empty if the step failed for another reason
}

// Suspended ends a step that was cancelled in order to be resumed. Only its usage counts.
// Token is its execution token.
type Suspended struct {
	End
	Token string
}

// Awaiting ends the activity of a step that waits for the results of calls of the caller's
// tools. The step continues once it has them.
type Awaiting struct {
	End
	Token string
	Calls []Call // calls; never empty
}

// Restarted ends a step that stopped itself at a safe point, without an action, to
// begin again with newer answers. Token is its execution token.
type Restarted struct {
	End
	Token string
}

// Exhausted ends a step whose allowance was spent before it acted. Token is its execution
// token.
type Exhausted struct {
	End
	Token string
}

// Critiqued ends the evaluation of an answer.
type Critiqued struct {
	End
	Verdict RoundVerdict
	Scores  []RoundScore
	Ceiling CeilingStatus
	Tasks   bool // the tasks are valid
}

// Drafted reports the cost of a preparation before the first step. Text describes the
// preparation to people. Reason says why its fallback is used; it is empty if it is not.
type Drafted struct {
	Usage        llm.Usage
	Text, Reason string
}

// Evaluated ends an evaluating step. Again requests another attempt of the team; Reason
// explains why.
type Evaluated struct {
	End
	Again  bool
	Reason string
}

// TimeShort reports that the session's time is nearly over.
type TimeShort struct{}

// TimeUp reports that the session's time is over.
type TimeUp struct{}

// Waited ends a Wait.
type Waited struct{}

// CancelRequested ends the session without a decision.
type CancelRequested struct{}

// Reopened lets a new run continue a session whose decision does not stand. Run is the run that ended,
// with which the execution tokens of its steps begin. It retries the failed step of Agent, or
// all failed steps if Agent is empty. Text is a person's message with which the session goes on,
// if any; Agent is then its recipient, and all failed steps are retried. Unclaimed are the running
// steps that have claimed no number.
type Reopened struct {
	Run, Agent, Text string
	Unclaimed        []LaunchID
}

// ModelReport is the report of a running step that its model is in an outage, or, without Out,
// that it is back. Rule 106 says when a step reports.
type ModelReport struct {
	Launch LaunchID
	Out    *Doing // beginning and description of the outage
}

// Finish forces a decision with the present answers and votes.
type Finish struct{}

// CallerGone ends an AskCaller because the caller has not returned in time.
type CallerGone struct{}

// ToolResults are results of calls of the caller's tools.
type ToolResults struct{ Results []ToolResult }

// Pause suspends running steps and holds back launches.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Retry launches the failed step of Agent again, or those of all failed agents if Agent is
// empty.
type Retry struct{ Agent string }

// Said is a person's message to Agent, or to all agents if Agent is empty.
type Said struct{ Agent, Text string }

func (Answered) event()        {}
func (Voted) event()           {}
func (Stopped) event()         {}
func (Failed) event()          {}
func (Suspended) event()       {}
func (Awaiting) event()        {}
func (CallerGone) event()      {}
func (ToolResults) event()     {}
func (Restarted) event()       {}
func (Exhausted) event()       {}
func (Evaluated) event()       {}
func (Critiqued) event()       {}
func (Drafted) event()         {}
func (TimeShort) event()       {}
func (TimeUp) event()          {}
func (Waited) event()          {}
func (Checked) event()         {}
func (CancelRequested) event() {}
func (Reopened) event()        {}
func (ModelReport) event()     {}
func (Finish) event()          {}
func (Pause) event()           {}
func (Resume) event()          {}
func (Retry) event()           {}
func (Said) event()            {}

// ending is an event that ends a step.
type ending interface {
	Event
	end() End
}

func (e End) end() End { return e }

// request is an event that a person requests.
type request interface {
	Event
	name() string
}

func (Finish) name() string      { return "finish" }
func (ToolResults) name() string { return "tool_results" }
func (Pause) name() string       { return "pause" }
func (Resume) name() string      { return "resume" }
func (Retry) name() string       { return "retry" }
func (Said) name() string        { return "say" }

// Seen is one entry of a vote's seen_steps: the step of Agent's newest answer that the voter
// was shown.
type Seen struct {
	Agent string `json:"agent"`
	Step  int    `json:"step"`
}

// SeenOf converts a map from agents to the steps of their answers into a list sorted by
// agent, nil if empty.
func SeenOf(steps map[string]int) []Seen {
	var seen []Seen
	for _, agent := range slices.Sorted(maps.Keys(steps)) {
		seen = append(seen, Seen{Agent: agent, Step: steps[agent]})
	}
	return seen
}

// Failure is the reason for an agent's failure: a stable type and a sentence.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

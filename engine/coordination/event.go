// Events are the inputs of a State.

package coordination

import (
	"cmp"
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
type Event interface{ isEvent() }

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

// Checked ends a Check. Verdicts has a character for each of its checks: '1' if the answer passes it, '0' if
// it fails, and another if the check could not be run. Checks without a character could not be run either.
type Checked struct {
	ID       LaunchID
	Verdicts string
}

// Choice is the choice of one answer, the content of a vote.
type Choice struct {
	Target      string   `json:"target"`               // agent ID
	TargetLabel string   `json:"target_label"`         // the revision named or shown, as in agent2.1
	Reason      string   `json:"reason"`               // truncated to 280 characters in the state
	Confidence  *float64 `json:"confidence,omitempty"` // from 0 to 1; nil if the voter gave none
}

// Voted ends a step with a vote.
type Voted struct {
	End
	Choice
	Seen  []Seen
	Heard int
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

// Exhausted ends a step whose allowance was spent before it acted. Token is its execution token.
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

// Evaluated ends an evaluating step. Again requests another attempt of the team; Reason explains why.
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

// Reopened lets a new run continue a session whose decision does not stand. Run is the run that ended, with
// which the execution tokens of its steps begin. It retries the failed step of Agent, or all failed steps if
// Agent is empty. Text is a person's message with which the session goes on, if any; Agent is then its
// recipient, and all failed steps are retried. Unclaimed are the running steps that have claimed no number.
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

// Replied is a person's reply to a question: Text or Option, from 1, or to the approval of a call: Allow and a Note.
type Replied struct {
	Question, Text string
	Option         int
	Allow          *bool
	Note, By       string // By names the person, for the record
}

// Lapsed ends the time of a question.
type Lapsed struct{ Question string }

// Pause suspends running steps and holds back launches.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// Retry launches the failed step of Agent again, or those of all failed agents if Agent is empty.
type Retry struct{ Agent string }

// Said is a person's message to Agent, or to all agents if Agent is empty.
type Said struct{ Agent, Text string }

func (Answered) isEvent()        {}
func (Voted) isEvent()           {}
func (Stopped) isEvent()         {}
func (Failed) isEvent()          {}
func (Suspended) isEvent()       {}
func (Awaiting) isEvent()        {}
func (CallerGone) isEvent()      {}
func (ToolResults) isEvent()     {}
func (Replied) isEvent()         {}
func (Lapsed) isEvent()          {}
func (Restarted) isEvent()       {}
func (Exhausted) isEvent()       {}
func (Evaluated) isEvent()       {}
func (Critiqued) isEvent()       {}
func (Drafted) isEvent()         {}
func (TimeShort) isEvent()       {}
func (TimeUp) isEvent()          {}
func (Waited) isEvent()          {}
func (Checked) isEvent()         {}
func (CancelRequested) isEvent() {}
func (Reopened) isEvent()        {}
func (ModelReport) isEvent()     {}
func (Finish) isEvent()          {}
func (Pause) isEvent()           {}
func (Resume) isEvent()          {}
func (Retry) isEvent()           {}
func (Said) isEvent()            {}

// ending is an event that ends a step.
type ending interface {
	Event
	endOfStep() End
}

func (e End) endOfStep() End { return e }

func toldAnswers(event ending) []Seen {
	switch e := event.(type) {
	case Answered:
		return e.Seen
	case Voted:
		return e.Seen
	case Stopped:
		return e.Seen
	}
	return event.endOfStep().Told
}

// request is an event that a person requests.
type request interface {
	Event
	requestName() string
}

func (Finish) requestName() string      { return "finish" }
func (ToolResults) requestName() string { return "tool_results" }
func (Replied) requestName() string     { return "reply" }
func (Pause) requestName() string       { return "pause" }
func (Resume) requestName() string      { return "resume" }
func (Retry) requestName() string       { return "retry" }
func (Said) requestName() string        { return "say" }

// Seen is one entry of a vote's seen_steps: the step of Agent's newest answer that the voter was shown.
type Seen struct {
	Agent string `json:"agent"`
	Step  int    `json:"step"`
}

// SeenOf converts a map from agents to the steps of their answers into a list sorted by agent, nil if empty.
func SeenOf(steps map[string]int) []Seen {
	var seen []Seen
	for _, agent := range slices.Sorted(maps.Keys(steps)) {
		seen = append(seen, Seen{Agent: agent, Step: steps[agent]})
	}
	return seen
}

func seenStep(seen []Seen, agent string) int {
	at, found := slices.BinarySearchFunc(seen, agent, byAgent)
	if !found {
		return 0
	}
	return seen[at].Step
}

func byAgent(n Seen, agent string) int { return cmp.Compare(n.Agent, agent) }

// Failure is the reason for an agent's failure: a stable type and a sentence.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// StopStatus is the state of a part as its owner reports it.
type StopStatus string

// The values of StopStatus.
const (
	Complete StopStatus = "complete"
	Blocked  StopStatus = "blocked"
)

// Doing is the current activity of a step, as its worker reports it. The state of a session
// has only the session's own waits.
type Doing struct {
	Kind  DoingKind `json:"kind"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // expected end of a wait; zero if unknown
	What  string    `json:"what"`           // one line for people
}

// DoingKind is the kind of an activity.
type DoingKind string

// The kinds of activities. All except CallsModel, RunsTool and RunsChecks are waits.
const (
	CallsModel  DoingKind = "model"
	RunsTool    DoingKind = "tool"
	RunsChecks  DoingKind = "checks"     // checks run on the agent's answer
	RateLimited DoingKind = "rate_limit" // the model's server accepts no more requests for now
	ModelAway   DoingKind = "outage"     // the model's server does not reply
	Queued      DoingKind = "queue"      // the step waits for a worker, or for its turn under one of the worker's limits
	OnHold      DoingKind = "paused"     // an operator paused the activity
	AsksPerson  DoingKind = "person"     // the step waits for a person's reply
)

// Waits reports whether the step is waiting rather than making progress.
func (d Doing) Waits() bool {
	return d.Kind != CallsModel && d.Kind != RunsTool && d.Kind != RunsChecks
}

// Outage is the outage of a failed step's model server.
type Outage string

// The values of Outage.
const (
	NoOutage    Outage = ""
	Interrupted Outage = "interrupted" // the server has replied in this session
	Unreached   Outage = "unreached"   // the server has never replied in this session
)

// Call is a call of a tool that the session's caller runs.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"` // the tool's name, as the caller gave it

	// Arguments are JSON as the model wrote it; empty if ArgumentsPath has them.
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsPath string `json:"arguments_path,omitempty"`

	// Digest identifies the tool and the arguments: equal calls have equal digests.
	Digest string `json:"digest"`

	// Ask is the question of the call to a person; nil for a call of the caller's tools.
	Ask *Ask `json:"ask,omitempty"`
}

// Ask is a question to a person.
type Ask struct {
	Kind    AskKind   `json:"kind"`
	Text    string    `json:"text"`
	Why     string    `json:"why,omitempty"`
	Options []string  `json:"options,omitempty"`
	Since   time.Time `json:"since,omitzero"`    // set by State.Stamp
	Overdue bool      `json:"overdue,omitempty"` // nobody has answered in time: the session is parked
}

// AskKind is the kind of a question.
type AskKind string

// The kinds of questions.
const (
	AskQuestion AskKind = "question"       // of an agent
	AskApproval AskKind = "approval"       // whether a call may run
	AskUnknown  AskKind = "unknown_effect" // how to go on after a call that may have run
)

// Reply is how a question was closed: questions/<id>.answer.json.
type Reply struct {
	Question string `json:"question"`
	Allow    *bool  `json:"allow,omitempty"` // of an approval
	Look     bool   `json:"look,omitempty"`  // the agent finds out itself whether a call has run
	Text     string `json:"text,omitempty"`  // the reply, or the note of an approval
	By       string `json:"by"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	ID      string `json:"id"`
	Content string `json:"content"`
}

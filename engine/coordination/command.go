package coordination

// Command is an instruction to the driver, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a step of Agent.
type Launch struct {
	ID      LaunchID `json:"id"`
	Agent   string   `json:"agent"`
	Number  int      `json:"number"` // the agent's anonymous number
	Round   int      `json:"round"`  // from 1
	Purpose Purpose  `json:"purpose,omitempty"`

	// After is the number of the agent's last finished step, 0 before its first: the new
	// step claims the first free number above it.
	After int `json:"after"`

	// Answers counts the agent's accepted answers in all attempts of the team: a new one
	// has the label agent<Number>.<Answers + 1>.
	Answers int `json:"answers,omitempty"`

	// Given counts those of the present attempt.
	Given int `json:"given,omitempty"`

	// Shown are the answers to show to the agent, including its own, by anonymous number.
	// All of them are accepted.
	Shown []Shown `json:"shown,omitempty"`

	// Messages are the human messages to the agent, in order.
	Messages []Message `json:"messages,omitempty"`

	// Offered are the actions open to the step; never empty.
	Offered []Action `json:"offered"`

	// Updates limits the news that reaches the step while it works.
	Updates Updates `json:"updates,omitzero"`

	// Allowance limits the spending of the step; zero is no limit.
	Allowance Allowance `json:"allowance,omitzero"`

	// Revote tells the step that all votes were fresh and split, but not how.
	Revote bool `json:"revote,omitempty"`

	// Brief is the decision as told to a presenter; nil for other steps.
	Brief *Brief `json:"verdict,omitempty"`

	// Final is the answer that an evaluating step judges; nil for other steps.
	Final *Shown `json:"final,omitempty"`

	// Previous is the last rejected attempt of the team; nil in the first attempt.
	Previous *Attempt `json:"previous,omitempty"`

	// ResumeFrom is the execution token of the suspended or failed step that this launch
	// resumes; empty for a new step.
	ResumeFrom string `json:"resume_from,omitempty"`
}

// Purpose is the purpose of a step.
type Purpose string

// The purposes of steps.
const (
	Coordinate Purpose = ""         // answer, vote or stop
	Present    Purpose = "present"  // make the final answer of the decision
	Evaluate   Purpose = "evaluate" // judge the final answer: submit it, or begin again
)

// Updates limits the peers' answers that reach a running step. Human messages always
// reach it.
type Updates struct {
	Mode string `json:"mode,omitempty"`

	// Most bounds the number of updates; 0 is no limit.
	Most int `json:"most,omitempty"`

	// UntilChecklist ends the updates with the first accepted checklist.
	UntilChecklist bool `json:"until_checklist,omitempty"`
}

// Allowance is the spending permitted to a step, input and output tokens together; a
// zero field is no limit.
type Allowance struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

// Brief is a decision as told to its presenter. Reasons and stops are in the order of
// the anonymous numbers.
type Brief struct {
	// Strategy is the way in which the final answer is made.
	Strategy string `json:"strategy"`

	// Label is the winning answer's; empty where nobody voted.
	Label string `json:"label,omitempty"`

	// Votes counts the fresh votes for the winner, Voters all fresh votes. Tied says that
	// another answer had as many. Reasons are those of the winner's voters.
	Votes   int      `json:"votes,omitempty"`
	Voters  int      `json:"voters,omitempty"`
	Tied    bool     `json:"tied,omitempty"`
	Reasons []string `json:"reasons,omitempty"` // truncated

	// Stops are the stops of the owners of the parts, in decomposition.
	Stops []StopNote `json:"stops,omitempty"`
}

// StopNote is the stop of the owner of a part.
type StopNote struct {
	Number  int        `json:"number"`
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // truncated
}

// Attempt is an attempt of the team that its evaluation rejected.
type Attempt struct {
	Number int `json:"number"` // from 1

	// Answer is the final answer of the attempt.
	Answer Shown `json:"answer"`

	// Agent and Step name the evaluating step, whose commit has the reason.
	Agent string `json:"agent"`
	Step  int    `json:"step"`
}

// Cancel ends a running step, for good or, with Suspend, until it is resumed.
type Cancel struct {
	ID      LaunchID
	Suspend bool
}

// Ring is the doorbell, which running steps of sessions and pipelines read at each safe
// point. It carries numbers and labels; the texts are in the store.
type Ring struct {
	Epoch     int       `json:"epoch"`             // counts the rings, from 1
	Earlier   int       `json:"earlier,omitempty"` // rejected attempts of the team
	Answers   []Shown   `json:"answers"`           // the latest of every agent, by anonymous number
	Messages  []Message `json:"messages,omitempty"`
	Directive Directive `json:"directive,omitempty"`
}

// Record puts an accepted action into the ledger.
type Record struct{ Entry Accepted }

// Done ends the session. Nothing follows it.
type Done struct{ Decision Decision }

func (Launch) command() {}
func (Cancel) command() {}
func (Ring) command()   {}
func (Record) command() {}
func (Done) command()   {}

// Directive is a request to all running steps.
type Directive string

// The directives.
const (
	carryOn Directive = ""
	WrapUp  Directive = "wrap_up" // the session's time is nearly over
	Pausing Directive = "pause"   // the steps are suspended
	Ending  Directive = "end"     // the session is decided; running steps are cancelled
)

// Message is the number of a human message; its text is in messages/<Number>.json.
type Message struct {
	Number int    `json:"number"`          // from 1, in the session
	Agent  string `json:"agent,omitempty"` // the recipient; empty for all agents
}

// Action is the end of a step, or the kind of a ledger entry.
type Action string

// The actions of agents, and the ledger's entry for a human message.
const (
	NewAnswer Action = "new_answer"
	Vote      Action = "vote"
	Stop      Action = "stop"

	// Submit and RestartTeam end an evaluating step.
	Submit      Action = "submit"
	RestartTeam Action = "restart_orchestration"

	// Say marks a human message in the ledger.
	Say Action = "say"
)

// StopStatus is the state of a part according to its owner.
type StopStatus string

// The values of StopStatus.
const (
	Complete StopStatus = "complete"
	Blocked  StopStatus = "blocked"
)

// Shown is an answer shown to an agent.
type Shown struct {
	Agent  string `json:"agent"`
	Number int    `json:"number"`
	Label  string `json:"label"` // agent<N>.<M>
	Step   int    `json:"step"`  // its directory is agents/<Agent>/<Step>
}

// Accepted is one ledger entry: an action that counted, or a human message.
type Accepted struct {
	Seq         int        `json:"seq"`             // from 1
	Agent       string     `json:"agent,omitempty"` // the actor, or the recipient of a message
	Step        int        `json:"step,omitempty"`
	Action      Action     `json:"action"`
	Label       string     `json:"label,omitempty"`        // of an answer; agent<N>.final of a presented one
	Target      string     `json:"target,omitempty"`       // of a vote
	TargetLabel string     `json:"target_label,omitempty"` // of a vote
	Status      StopStatus `json:"status,omitempty"`       // of a stop
	Message     int        `json:"message,omitempty"`      // number of a human message
	Text        string     `json:"text,omitempty"`         // of a human message
	Seen        []Seen     `json:"seen,omitempty"`
	Attempt     int        `json:"attempt,omitempty"` // of the team; 0 for the first
}

// Status is how a session ended; its values are the public contract's.
type Status string

// The ends of a session.
const (
	Consensus Status = "consensus"
	Plurality Status = "plurality"
	Presented Status = "presented" // without a vote: decomposition, skip_voting
	Finished  Status = "finished"
	Limit     Status = "limit"
	Timeout   Status = "timeout"
	OverSpent Status = "budget"
	FailedAll Status = "failed"
)

// Decision is the outcome of a session. Winner is empty only if Status is FailedAll.
type Decision struct {
	Status      Status  `json:"status"`
	Winner      string  `json:"winner,omitempty"`
	WinnerLabel string  `json:"winner_label,omitempty"`
	WinnerStep  int     `json:"winner_step,omitempty"`
	Votes       []count `json:"votes"` // fresh votes, by target, in configured order

	// Final is the presented answer; nil if the winner's answer stands.
	Final *Shown `json:"final,omitempty"`

	// Cause is the reason of a failed session, empty otherwise. Asked is the status that
	// forced the decision of a session without answers.
	Cause cause  `json:"cause,omitempty"`
	Asked Status `json:"asked,omitempty"`
}

// cause is the reason why a session has no winner.
type cause string

// The causes of failure.
const (
	causeNoAnswer    cause = "NoAnswer"    // nobody has an accepted answer
	causeSplit       cause = "Split"       // the votes are split, and on_split is fail
	causeAgentFailed cause = "AgentFailed" // an agent failed, and on_agent_failure is fail
)

// Split reports whether the session failed because the votes were split.
func (d Decision) Split() bool { return d.Cause == causeSplit }

// count is the number of fresh votes for a target.
type count struct {
	Target string `json:"target"`
	Votes  int    `json:"votes"`
}

package coordination

// Command is something the driver must carry out, once, in the order given.
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

	// After is the agent's last finished step number: the new step claims the
	// first free number above it. It is 0 for an agent's first step.
	After int `json:"after"`

	// Answers is how many accepted answers the agent has, in all attempts of the
	// team: a new one bears the label agent<Number>.<Answers + 1>.
	Answers int `json:"answers,omitempty"`

	// Given is how many of them are of the present attempt.
	Given int `json:"given,omitempty"`

	// Shown are the answers to put before the agent, its own included, by
	// label. It is never more than what was accepted.
	Shown []Shown `json:"shown,omitempty"`

	// Messages are what people have said to the agent so far, in order.
	Messages []Message `json:"messages,omitempty"`

	// Offered are the actions open to the step; never empty.
	Offered []Action `json:"offered"`

	// Updates says what the step may be told while it works.
	Updates Updates `json:"updates,omitzero"`

	// Allowance is what the step may spend; zero for no limit.
	Allowance Allowance `json:"allowance,omitzero"`

	// Revote says that everyone's vote was fresh and split. The step is told
	// so, but not how the votes fell.
	Revote bool `json:"revote,omitempty"`

	// Brief tells a presenter of the decision; nil for other steps.
	Brief *Brief `json:"verdict,omitempty"`

	// Final is the answer that an evaluating step judges; nil for other steps.
	Final *Shown `json:"final,omitempty"`

	// Previous is the attempt that the team begins again after; nil in the first.
	Previous *Attempt `json:"previous,omitempty"`

	// ResumeFrom is the execution token of the step that this one goes on with:
	// one that was suspended, or that failed and is retried. Empty for a new step.
	ResumeFrom string `json:"resume_from,omitempty"`
}

// Purpose is what a step is for.
type Purpose string

// The purposes of steps.
const (
	Coordinate Purpose = ""         // answer, vote or stop
	Present    Purpose = "present"  // make the final answer of the decision
	Evaluate   Purpose = "evaluate" // judge the final answer: submit it, or begin again
)

// Updates says what reaches a step while it works. Human messages always do.
type Updates struct {
	Mode UpdateMode `json:"mode,omitempty"`

	// Most is how many peers' updates a step takes at most; 0 for any number.
	Most int `json:"most,omitempty"`

	// UntilChecklist ends the updates with the first accepted checklist.
	UntilChecklist bool `json:"until_checklist,omitempty"`
}

// Allowance is what a step may spend, input and output tokens together; zero
// fields are no limit.
type Allowance struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

// Brief is a decision as told to a presenter. Voters and stops are in
// the order of the anonymous numbers.
type Brief struct {
	// Strategy is how the final answer is made.
	Strategy FinalStrategy `json:"strategy"`

	// Label is the winning answer; empty where nothing was decided by votes.
	Label string `json:"label,omitempty"`

	// Votes of Voters were fresh and for the winner; Tied says that another
	// answer had as many. Reasons are those of its voters.
	Votes   int      `json:"votes,omitempty"`
	Voters  int      `json:"voters,omitempty"`
	Tied    bool     `json:"tied,omitempty"`
	Reasons []string `json:"reasons,omitempty"` // cut

	// Stops are how the owners of the parts ended, in decomposition.
	Stops []StopNote `json:"stops,omitempty"`
}

// StopNote is how the owner of a part ended.
type StopNote struct {
	Number  int        `json:"number"`
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // cut
}

// Attempt is an earlier attempt of the team, which its evaluation found wanting.
type Attempt struct {
	Number int `json:"number"` // from 1

	// Answer is the final answer of the attempt.
	Answer Shown `json:"answer"`

	// Evaluation is the step whose commit says why, and what to do better.
	Agent string `json:"agent"`
	Step  int    `json:"step"`
}

// Cancel ends a running step: because its outcome no longer matters, or, with
// Suspend, to go on with it later.
type Cancel struct {
	ID      LaunchID
	Suspend bool
}

// Ring rings the doorbell, which running steps read at each safe point. It carries
// numbers and labels; the texts are in the store.
type Ring struct {
	Epoch     int       `json:"epoch"`             // counts the rings, from 1
	Earlier   int       `json:"earlier,omitempty"` // attempts of the team before the one that the answers belong to
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

// Directive is what all running steps are asked to do.
type Directive string

// The directives.
const (
	CarryOn Directive = ""
	WrapUp  Directive = "wrap_up" // the session's time is nearly over
	Pausing Directive = "pause"   // the steps are suspended
	Ending  Directive = "end"     // the session is decided, what still runs is cancelled
)

// Message is something a person said, by number: messages/<Number>.json has it.
type Message struct {
	Number int    `json:"number"`          // from 1, over all messages of the session
	Agent  string `json:"agent,omitempty"` // whom it is for; empty for everybody
}

// Action is what a step may end with.
type Action string

// The actions of a team member, and, in the ledger, what people said.
const (
	NewAnswer Action = "new_answer"
	Vote      Action = "vote"
	Stop      Action = "stop"

	// Submit and RestartTeam end an evaluating step.
	Submit      Action = "submit"
	RestartTeam Action = "restart_orchestration"

	// Say is no action of an agent: a ledger entry with what a person said.
	Say Action = "say"
)

// StopStatus is how the owner of a part sees it.
type StopStatus string

// The values of StopStatus.
const (
	Complete StopStatus = "complete"
	Blocked  StopStatus = "blocked"
)

// Shown is one answer put before an agent.
type Shown struct {
	Agent  string `json:"agent"`
	Number int    `json:"number"`
	Label  string `json:"label"` // agent<N>.<M>
	Step   int    `json:"step"`  // where it lies: agents/<Agent>/<Step>
}

// Accepted is one ledger entry: an action that counted, or a human message.
type Accepted struct {
	Seq         int        `json:"seq"`             // from 1
	Agent       string     `json:"agent,omitempty"` // whose action; whom a message is for
	Step        int        `json:"step,omitempty"`
	Action      Action     `json:"action"`
	Label       string     `json:"label,omitempty"`        // of an answer; agent<N>.final of a presented one
	Target      string     `json:"target,omitempty"`       // of a vote
	TargetLabel string     `json:"target_label,omitempty"` // of a vote
	Status      StopStatus `json:"status,omitempty"`       // of a stop
	Message     int        `json:"message,omitempty"`      // number of a human message
	Text        string     `json:"text,omitempty"`         // of a human message
	Seen        []Seen     `json:"seen,omitempty"`
	Attempt     int        `json:"attempt,omitempty"` // of the team, where it is not the first
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

// Decision is the outcome. Winner is empty only when Status is FailedAll.
type Decision struct {
	Status      Status  `json:"status"`
	Winner      string  `json:"winner,omitempty"`
	WinnerLabel string  `json:"winner_label,omitempty"`
	WinnerStep  int     `json:"winner_step,omitempty"`
	Votes       []Count `json:"votes"` // fresh votes, by target, in configured order

	// Final is the presented answer; nil when the winner's stands as it is.
	Final *Shown `json:"final,omitempty"`

	// Cause says why a session failed; empty for every other status. Asked is
	// what called for the decision that nobody's answer could be taken for.
	Cause Cause  `json:"cause,omitempty"`
	Asked Status `json:"asked,omitempty"`
}

// Cause is why a session ended without a winner.
type Cause string

// The causes of failure.
const (
	CauseNoAnswer    Cause = "NoAnswer"    // nobody has an accepted answer
	CauseSplit       Cause = "Split"       // the votes are split, and on_split is fail
	CauseAgentFailed Cause = "AgentFailed" // an agent failed, and on_agent_failure is fail
)

// Count is how many fresh votes a target has.
type Count struct {
	Target string `json:"target"`
	Votes  int    `json:"votes"`
}

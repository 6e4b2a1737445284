package coordination

import "time"

// Command is an instruction to the driver, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a step of Agent.
type Launch struct {
	ID      LaunchID `json:"id"`
	Agent   string   `json:"agent"`
	Number  int      `json:"number"` // the agent's anonymous number
	Round   int      `json:"round"`  // number of the round, from 1
	Purpose Purpose  `json:"purpose,omitempty"`

	After   int `json:"after"`             // the agent's last finished step, 0 before its first; the new step takes the first free number above it. Of an evaluation: the step of the answer
	Answers int `json:"answers,omitempty"` // accepted answers of the agent in all attempts of the team; a new one has the label agent<Number>.<Answers + 1>
	Given   int `json:"given,omitempty"`   // those of the present attempt

	Shown     []Shown   `json:"shown,omitempty"`    // accepted answers to show, the agent's own included, by anonymous number
	Messages  []Message `json:"messages,omitempty"` // human messages to the agent, in order
	Offered   []Action  `json:"offered"`            // actions open to the step; never empty
	Updates   Updates   `json:"updates,omitzero"`   // limits on the news that reaches the running step
	Allowance Allowance `json:"allowance,omitzero"` // limits on the step's spending
	Revote    bool      `json:"revote,omitempty"`   // all votes were fresh and split; the prompt does not show the votes

	Checks   *CheckTable     `json:"checks,omitempty"`   // check outcomes for voters; nil without checks
	Brief    *Brief          `json:"verdict,omitempty"`  // the decision for a presenter; nil for other steps
	Final    *Shown          `json:"final,omitempty"`    // the answer that an evaluating step judges; nil for other steps
	Previous *RejectedAnswer `json:"previous,omitempty"` // nil before the first rejection

	// Critique is the evaluation of the agent's newest answer, or nil.
	Critique *Critique `json:"critique,omitempty"`

	// ResumeFrom is the execution token of the suspended or failed step that this launch
	// resumes; it is empty for a new step.
	ResumeFrom string `json:"resume_from,omitempty"`

	// Answered is set if the caller has returned the results for which that step waited.
	Answered bool `json:"answered,omitempty"`

	// Owed is set if the session ended while that step waited for results. The step waits for
	// them again once it has read its journal.
	Owed bool `json:"owed,omitempty"`

	// FilesFrom is the execution token of the suspended or failed step that this one replaces
	// and whose files it receives; it is empty for a step that replaces no other.
	FilesFrom string `json:"files_from,omitempty"`

	// Uncounted is set if no event has counted the usage of that step; this step then reports
	// it as well.
	Uncounted bool `json:"uncounted,omitempty"`

	LongestCall float64 `json:"longest_call,omitempty"` // longest model call of the session so far, in seconds

	// AwaySince is when the model server of that step stopped replying; it is zero if the
	// server replied.
	AwaySince time.Time `json:"away_since,omitzero"`
}

// Purpose is the purpose of a step.
type Purpose string

// The purposes of steps.
const (
	Coordinate Purpose = ""         // answer, vote or stop
	Present    Purpose = "present"  // make the final answer of the decision
	Evaluate   Purpose = "evaluate" // judge the final answer: submit it, or begin again

	// Evaluation evaluates the agent's newest answer before its next step.
	Evaluation Purpose = "critique"
)

// Updates limits the peers' answers that reach a running step. Human messages always
// reach it.
type Updates struct {
	Mode           string `json:"mode,omitempty"`            // mode, as in Config.Updates
	Most           int    `json:"most,omitempty"`            // number of updates; 0 is no limit
	UntilChecklist bool   `json:"until_checklist,omitempty"` // the first accepted checklist ends them
}

// Allowance is the spending permitted to a step, input and output tokens together; a
// zero field is no limit.
type Allowance struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

// Brief describes a decision to its presenter. Reasons and stops are in the order of the
// anonymous numbers.
type Brief struct {
	Strategy string     `json:"strategy"`          // strategy, as in Config.Strategy
	Label    string     `json:"label,omitempty"`   // label of the winning answer; empty where nobody voted
	Votes    int        `json:"votes,omitempty"`   // fresh votes for the winner
	Voters   int        `json:"voters,omitempty"`  // number of all fresh votes
	Tied     bool       `json:"tied,omitempty"`    // another answer has as many votes
	Reasons  []string   `json:"reasons,omitempty"` // reasons of the winner's voters; truncated
	Stops    []StopNote `json:"stops,omitempty"`   // stops of the owners of the parts, in decomposition
}

// StopNote describes how the owner of a part stopped.
type StopNote struct {
	Number  int        `json:"number"`
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // truncated text
}

// RejectedAnswer is a final answer that its evaluation rejected, after which the team began
// again.
type RejectedAnswer struct {
	Number int    `json:"number"` // number of the rejection, from 1
	Answer Shown  `json:"answer"`
	Agent  string `json:"agent"` // the evaluating agent
	Step   int    `json:"step"`  // its step, whose commit has the reason
}

// Cancel cancels a running step. With Suspend, the step can be resumed.
type Cancel struct {
	ID      LaunchID
	Suspend bool
}

// Ring is the content of the doorbell, which running steps of sessions and pipelines read at
// each safe point. It has only numbers and labels; the texts are in the store.
type Ring struct {
	Epoch     int       `json:"epoch"`             // counts the rings, from 1
	Earlier   int       `json:"earlier,omitempty"` // rejected attempts of the team
	Answers   []Shown   `json:"answers"`           // the latest of every agent, by anonymous number
	Messages  []Message `json:"messages,omitempty"`
	Directive Directive `json:"directive,omitempty"`
}

// Check runs checks on an answer. It ends with Checked.
type Check struct {
	ID     LaunchID
	Answer Shown
	Checks []string // IDs of the checks
}

// Wait requests a Waited event after some seconds. It is withdrawn early when State.Waiting
// becomes false. Without Firsts no step runs during the wait, and a launch ends it.
type Wait struct {
	Seconds int
	Firsts  bool // a majority waits for the first answers under way
}

// AskCaller requests a CallerGone event after some seconds, unless the caller returns results
// first.
type AskCaller struct{ Seconds int }

// Record puts an accepted action into the ledger.
type Record struct{ Entry Accepted }

// Done ends the session. It is the last command.
type Done struct{ Decision Decision }

func (Launch) command()    {}
func (Cancel) command()    {}
func (Ring) command()      {}
func (Record) command()    {}
func (Check) command()     {}
func (AskCaller) command() {}
func (Wait) command()      {}
func (Done) command()      {}

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
	Number int    `json:"number"`          // number of the check in the session, from 1
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

	// SubmitEvaluation ends the evaluation of an answer.
	SubmitEvaluation Action = "submit_evaluation"

	// Say marks a human message in the ledger.
	Say Action = "say"
)

// StopStatus is the state of a part as its owner reports it.
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
	Label  string `json:"label"`         // agent<N>.<M>
	Step   int    `json:"step"`          // its directory is agents/<Agent>/<Step>
	Seq    int    `json:"seq,omitempty"` // number of its ledger entry: answers accepted later have higher ones; 0 if unknown
}

// Accepted is one ledger entry: an accepted action, or a human message.
type Accepted struct {
	Seq         int        `json:"seq"`             // number of the entry, from 1
	Agent       string     `json:"agent,omitempty"` // the actor, or the recipient of a message
	Step        int        `json:"step,omitempty"`
	Action      Action     `json:"action"`
	Label       string     `json:"label,omitempty"`        // label of an answer; agent<N>.final of a presented one
	Target      string     `json:"target,omitempty"`       // target of a vote
	TargetLabel string     `json:"target_label,omitempty"` // label of the answer that a vote names
	Status      StopStatus `json:"status,omitempty"`       // status of a stop
	Message     int        `json:"message,omitempty"`      // number of a human message
	Text        string     `json:"text,omitempty"`         // text of a human message
	Seen        []Seen     `json:"seen,omitempty"`
	Attempt     int        `json:"attempt,omitempty"` // number of the team's attempt; 0 for the first
	Time        time.Time  `json:"time,omitzero"`     // set by State.Stamp
}

// Status is how a session ended; its values are the public contract's.
type Status string

// The ends of a session.
const (
	Consensus Status = "consensus"
	Plurality Status = "plurality"
	Presented Status = "presented" // decided without a vote: decomposition, skip_voting
	Finished  Status = "finished"
	Limit     Status = "limit"
	Timeout   Status = "timeout"
	OverSpent Status = "budget"
	Undecided Status = "undecided" // the best answer has too little support
	FailedAll Status = "failed"
	Cancelled Status = "cancelled" // a person cancelled the workflow
)

// Decision is the outcome of a session. Winner is empty only if Status is FailedAll or
// Cancelled.
type Decision struct {
	Status      Status  `json:"status"`
	Winner      string  `json:"winner,omitempty"`
	WinnerLabel string  `json:"winner_label,omitempty"`
	WinnerStep  int     `json:"winner_step,omitempty"`
	Votes       []count `json:"votes"` // fresh votes, by target, in configured order

	// Voters are the agents that cast the votes in Votes, in configured order.
	Voters []string `json:"voters,omitempty"`

	// Earlier is set if the decision is that of an earlier attempt of the team, because the
	// last attempt decided nothing.
	Earlier bool `json:"earlier,omitempty"`

	// Tied lists, in configured order, the winner and the agents whose answers have as
	// many votes. Equal answers are listed once. It is nil without a tie.
	Tied []string `json:"tied,omitempty"`

	By      Basis    `json:"by,omitempty"`      // set if votes alone did not decide
	Cut     []string `json:"cut,omitempty"`     // agents whose steps were cancelled by a quorum or while they were away, in configured order
	Support *Support `json:"support,omitempty"` // support of the winner; nil without votes or agreement
	Despite Status   `json:"despite,omitempty"` // the status that an undecided session would have had

	// Final is the presented answer; nil if the winner's answer stands. If every agent has failed,
	// it is the best answer, for which nobody has decided.
	Final *Shown `json:"final,omitempty"`

	Cause cause  `json:"cause,omitempty"` // cause of a failed session
	Asked Status `json:"asked,omitempty"` // the status that forced the decision of a session without answers
}

// cause is the reason why a session has no winner.
type cause string

// The causes of failure.
const (
	causeNoAnswer    cause = "NoAnswer"     // nobody has an accepted answer
	causeSplit       cause = "Split"        // the votes are split, and on_split is fail
	causeAgentFailed cause = "AgentFailed"  // an agent failed, and on_agent_failure is fail
	causeNoCaller    cause = "CallerGone"   // the caller did not return the results of its tools
	causeTooFew      cause = "TooFewAgents" // fewer agents than min_active_agents are left
	causeAllFailed   cause = "AllFailed"    // every agent failed, and no vote counts
)

// Stands reports whether the decision is final. If it is not, the session can be reopened.
func (d Decision) Stands() bool { return d.Winner != "" && d.Status != Undecided }

// PresentedBy returns the agent that wrote the final answer as the presenter, and its label, or "".
func (d Decision) PresentedBy() (agent, label string) {
	if d.Final == nil || !IsFinal(d.Final.Label) {
		return "", ""
	}
	return d.Final.Agent, d.Final.Label
}

// Split reports whether the session failed because the votes were split.
func (d Decision) Split() bool { return d.Cause == causeSplit }

// TooFew reports whether the session failed because too few agents were left to vote.
func (d Decision) TooFew() bool { return d.Cause == causeTooFew }

// NoCaller reports whether the session failed because its caller did not return.
func (d Decision) NoCaller() bool { return d.Cause == causeNoCaller }

// count is the number of fresh votes for a target.
type count struct {
	Target string `json:"target"`
	Votes  int    `json:"votes"`
}

package coordination

// Command is something the driver must carry out, once, in the order given.
//
//sumtype:decl
type Command interface{ command() }

// Launch starts a step of Agent.
type Launch struct {
	ID     LaunchID `json:"id"`
	Agent  string   `json:"agent"`
	Number int      `json:"number"` // the agent's anonymous number
	Round  int      `json:"round"`  // wave, from 1

	// After is the agent's last finished step number: the new step claims the
	// first free number above it.
	After int `json:"after"`

	// Shown are the answers to put before the agent, its own included, by
	// label. It is never more than what was accepted.
	Shown []Shown `json:"shown,omitempty"`

	// Offered are the actions open to the step; never empty.
	Offered []Action `json:"offered"`

	// Revote says that everyone's vote was fresh and split. The step is told
	// so, but not how the votes fell.
	Revote bool `json:"revote,omitempty"`
}

// Cancel ends a running step whose outcome no longer matters.
type Cancel struct{ ID LaunchID }

// Record puts an accepted action into the ledger.
type Record struct{ Entry Accepted }

// Done ends the session. Nothing follows it.
type Done struct{ Decision Decision }

func (Launch) command() {}
func (Cancel) command() {}
func (Record) command() {}
func (Done) command()   {}

// Action is what a step may end with.
type Action string

// The actions of a team member.
const (
	NewAnswer Action = "new_answer"
	Vote      Action = "vote"
)

// Shown is one answer put before an agent.
type Shown struct {
	Agent  string `json:"agent"`
	Number int    `json:"number"`
	Label  string `json:"label"` // agent<N>.<M>
	Step   int    `json:"step"`  // where it lies: agents/<Agent>/<Step>
}

// Accepted is one ledger entry: an action that counted.
type Accepted struct {
	Seq         int    `json:"seq"` // from 1
	Agent       string `json:"agent"`
	Step        int    `json:"step"`
	Action      Action `json:"action"`
	Label       string `json:"label,omitempty"`        // of an answer
	Target      string `json:"target,omitempty"`       // of a vote
	TargetLabel string `json:"target_label,omitempty"` // of a vote
	Seen        []Seen `json:"seen,omitempty"`
}

// Status is how a session ended; its values are the public contract's.
type Status string

// The ends of a voting session.
const (
	Consensus Status = "consensus"
	Plurality Status = "plurality"
	Finished  Status = "finished"
	Limit     Status = "limit"
	Timeout   Status = "timeout"
	FailedAll Status = "failed"
)

// Decision is the outcome. Winner is empty only when Status is FailedAll.
type Decision struct {
	Status      Status  `json:"status"`
	Winner      string  `json:"winner,omitempty"`
	WinnerLabel string  `json:"winner_label,omitempty"`
	WinnerStep  int     `json:"winner_step,omitempty"`
	Votes       []Count `json:"votes"` // fresh votes, by target, in configured order

	// Cause says why a session failed; empty for every other status.
	Cause Cause `json:"cause,omitempty"`
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

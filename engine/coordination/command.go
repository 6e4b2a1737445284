// Commands are the outputs of a State.

package coordination

import (
	"slices"
	"time"
)

// Command is an instruction to the driver, to be carried out once and in order.
//
//sumtype:decl
type Command interface{ isCommand() }

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
	Critique *Critique       `json:"critique,omitempty"` // evaluation of the agent's newest answer; nil without one

	ResumeFrom  string    `json:"resume_from,omitempty"`  // execution token of the suspended or failed step to resume; empty for a new step
	Answered    bool      `json:"answered,omitempty"`     // the caller has returned the results for which that step waited
	Owed        bool      `json:"owed,omitempty"`         // the session ended while that step waited for results; it waits again once it has read its journal
	FilesFrom   string    `json:"files_from,omitempty"`   // execution token of the step that this one replaces and whose files it receives
	Uncounted   bool      `json:"uncounted,omitempty"`    // no event has counted the usage of that step; this one reports it as well
	LongestCall float64   `json:"longest_call,omitempty"` // longest model call of the session so far, in seconds
	AwaySince   time.Time `json:"away_since,omitzero"`    // when the model server of that step stopped replying; zero if it replied
}

func (l *Launch) mayTake(action Action) bool { return slices.Contains(l.Offered, action) }

func (l *Launch) fitsIn(offered []Action) bool {
	return !slices.ContainsFunc(l.Offered, func(action Action) bool { return !slices.Contains(offered, action) })
}

// seenAnswers returns the answers that the step was shown at its launch, in byte order of the IDs.
func (l *Launch) seenAnswers() []Seen {
	seen := make([]Seen, 0, len(l.Shown))
	for _, shown := range l.Shown {
		at, _ := slices.BinarySearchFunc(seen, shown.Agent, byAgent)
		seen = slices.Insert(seen, at, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// lastMessage returns the number of the last human message in the launch, or 0.
func (l *Launch) lastMessage() int {
	if len(l.Messages) == 0 {
		return 0
	}
	return l.Messages[len(l.Messages)-1].Number
}

func (l Launch) clone() Launch {
	l.Shown, l.Messages, l.Offered = slices.Clone(l.Shown), slices.Clone(l.Messages), slices.Clone(l.Offered)
	l.Brief, l.Final, l.Previous = shallowCopy(l.Brief), shallowCopy(l.Final), shallowCopy(l.Previous)
	if l.Critique = shallowCopy(l.Critique); l.Critique != nil {
		l.Critique.Scores = slices.Clone(l.Critique.Scores)
	}
	l.Checks = l.Checks.clone()
	if l.Brief != nil {
		l.Brief.Reasons, l.Brief.Stops = slices.Clone(l.Brief.Reasons), slices.Clone(l.Brief.Stops)
	}
	return l
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

func (p Purpose) isOfFinale() bool { return p == Present || p == Evaluate }

// Updates limits the peers' answers that reach a running step. Human messages always reach it.
type Updates struct {
	Mode           string `json:"mode,omitempty"`            // mode, as in Config.Updates
	Most           int    `json:"most,omitempty"`            // number of updates; 0 is no limit
	UntilChecklist bool   `json:"until_checklist,omitempty"` // the first accepted checklist ends them
}

// Allowance is the spending permitted to a step, input and output tokens together; a zero field is no limit.
type Allowance struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

// Brief describes a decision to its presenter. Reasons and stops are in the order of the anonymous numbers.
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

// RejectedAnswer is a final answer that its evaluation rejected, after which the team began again.
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

func (b Ring) latestStep(agent string) int {
	for _, n := range b.Answers {
		if n.Agent == agent {
			return n.Step
		}
	}
	return 0
}

func (b Ring) clone() Ring {
	b.Answers, b.Messages = slices.Clone(b.Answers), slices.Clone(b.Messages)
	return b
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

// AskCaller requests a CallerGone event after some seconds, unless the caller returns results first.
type AskCaller struct{ Seconds int }

// Record puts an accepted action into the ledger.
type Record struct{ Entry Accepted }

// Done ends the session. It is the last command.
type Done struct{ Decision Decision }

func (Launch) isCommand()    {}
func (Cancel) isCommand()    {}
func (Ring) isCommand()      {}
func (Record) isCommand()    {}
func (Check) isCommand()     {}
func (AskCaller) isCommand() {}
func (Wait) isCommand()      {}
func (Done) isCommand()      {}

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

// CheckTable has the outcomes of checks on the answers shown to a voter. The order of the
// checks does not reveal their authors.
type CheckTable struct {
	Checks []string   `json:"checks"` // IDs of the columns
	Rows   []CheckRow `json:"rows"`
}

// CheckRow is an answer's row of a CheckTable.
type CheckRow struct {
	Label    string `json:"label"`
	Verdicts string `json:"verdicts"` // verdicts as in Checked, '.' for a check that has not run
}

func (t *CheckTable) clone() *CheckTable {
	if t == nil {
		return nil
	}
	return &CheckTable{Checks: slices.Clone(t.Checks), Rows: slices.Clone(t.Rows)}
}

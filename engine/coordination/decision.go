// Rule 1: labels. Answers, their digests and evaluations, and the decision for one of them.

package coordination

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shown is an answer shown to an agent.
type Shown struct {
	Agent  string `json:"agent"`
	Number int    `json:"number"`
	Label  string `json:"label"`         // agent<N>.<M>
	Step   int    `json:"step"`          // its directory is agents/<Agent>/<Step>
	Seq    int    `json:"seq,omitempty"` // number of its ledger entry: answers accepted later have higher ones; 0 if unknown
}

// finalSuffix is the second part of the label of an answer that an agent presents.
const finalSuffix = ".final"

// Label returns the label of an agent's n-th answer, such as agent1.2. number is the agent's
// anonymous number.
func Label(number, n int) string { return "agent" + strconv.Itoa(number) + "." + strconv.Itoa(n) }

// FinalLabel returns the label of the answer that an agent presents, such as agent1.final.
func FinalLabel(number int) string { return "agent" + strconv.Itoa(number) + finalSuffix }

// FinalLabelOf returns the label under which the agent of a labelled answer presents.
func FinalLabelOf(label string) string {
	agent, _, _ := strings.Cut(label, ".")
	return agent + finalSuffix
}

// IsFinal reports whether the answer with the label is a presented one.
func IsFinal(label string) bool { return strings.HasSuffix(label, finalSuffix) }

// Digest holds the hashes by which answers are compared; they are empty if unknown.
type Digest struct {
	Exact      string `json:"exact,omitempty"`      // hash of the text and the files
	Normalized string `json:"normalized,omitempty"` // hash of the normalized text and the files

	// Hashes of the last line if it is "ANSWER: …"; empty otherwise.
	ExactLine      string `json:"exact_line,omitempty"`
	NormalizedLine string `json:"normalized_line,omitempty"`

	Data string `json:"data,omitempty"` // hash of the canonical data; empty for a text
}

// The values of Config.Agree, the comparison that finds equal answers.
const (
	agreeNormalized = "normalized" // equal after NFKC and case folding, ignoring closing punctuation
	agreeExact      = "exact"      // equal byte for byte
	agreeData       = "data"       // equal data
)

// Whole returns the hash of the whole answer for a value of Config.Agree.
func (d Digest) Whole(agree string) string {
	if agree == agreeExact {
		return d.Exact
	}
	if agree == agreeData && d.Data != "" {
		return d.Data
	}
	return d.Normalized
}

// Line returns the hash of the last line "ANSWER: …" for a value of Config.Agree.
func (d Digest) Line(agree string) string {
	if agree == agreeExact {
		return d.ExactLine
	}
	if agree == agreeData {
		return ""
	}
	return d.NormalizedLine
}

// Equal reports whether two answers are equal. If lines is set and both have a last line
// "ANSWER: …", only those lines are compared.
func (d Digest) Equal(other Digest, agree string, lines bool) bool {
	if a, b := d.Line(agree), other.Line(agree); lines && a != "" && b != "" {
		return a == b
	}
	return d.Whole(agree) != "" && d.Whole(agree) == other.Whole(agree)
}

// Critique is the evaluation of an agent's answer by the evaluator of rounds. Its
// Verdict is empty if there was no outcome.
type Critique struct {
	Step    int           `json:"step"`            // number of the answer's step
	Label   string        `json:"label,omitempty"` // label of the answer, in a View
	Verdict RoundVerdict  `json:"verdict,omitempty"`
	Scores  []RoundScore  `json:"scores,omitempty"`
	Ceiling CeilingStatus `json:"ceiling_status,omitempty"`
	Tasks   bool          `json:"tasks,omitempty"`   // the evaluation has tasks, the plan of the agent's next step
	Plateau bool          `json:"plateau,omitempty"` // this evaluation and the one before have found the ceiling reached, and the total score has hardly risen
}

// RoundScore is the score of an answer by one criterion, from 0 to 10.
type RoundScore struct {
	ID    string  `json:"id"` // E1, E2, …
	Score float64 `json:"score"`
}

// RoundVerdict is the evaluator's verdict on an answer.
type RoundVerdict string

// The verdicts of the evaluator.
const (
	Iterate   RoundVerdict = "iterate"
	Converged RoundVerdict = "converged"
)

// CeilingStatus is how close an approach is to the best result that it can give.
type CeilingStatus string

// The values of CeilingStatus.
const (
	CeilingNotReached  CeilingStatus = "ceiling_not_reached"
	CeilingApproaching CeilingStatus = "ceiling_approaching"
	CeilingReached     CeilingStatus = "ceiling_reached"
)

func (c *Critique) totalScore() float64 {
	sum := 0.0
	for _, s := range c.Scores {
		sum += s.Score
	}
	return sum
}

func (c *Critique) text() string {
	text := string(c.Verdict)
	if c.Ceiling != "" {
		text += ", " + string(c.Ceiling)
	}
	if c.Plateau {
		text += ", no better than before"
	}
	return text
}

// Decision is the outcome of a session. Winner is empty only if Status is FailedAll or
// Cancelled.
type Decision struct {
	Status      Status   `json:"status"`
	Winner      string   `json:"winner,omitempty"`
	WinnerLabel string   `json:"winner_label,omitempty"`
	WinnerStep  int      `json:"winner_step,omitempty"`
	Votes       []count  `json:"votes"`             // fresh votes, by target, in configured order
	Voters      []string `json:"voters,omitempty"`  // agents that cast them, in configured order
	Earlier     bool     `json:"earlier,omitempty"` // it is that of an earlier attempt of the team, because the last one decided nothing

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

func (s Status) isForced() bool {
	return s == Finished || s == Timeout || s == OverSpent || s == Limit
}

// count is the number of fresh votes for a target.
type count struct {
	Target string `json:"target"`
	Votes  int    `json:"votes"`
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

func (c cause) text() string {
	switch c {
	case causeSplit:
		return "the votes are split"
	case causeAgentFailed:
		return "an agent failed"
	case causeTooFew:
		return "too few agents are left to vote"
	case causeNoCaller:
		return "the caller did not return the results of its tools"
	case causeAllFailed:
		return "every agent failed, and no vote counts"
	case causeNoAnswer:
	}
	return "nobody has an answer"
}

// Basis is the reason for a decision that does not follow from votes alone.
type Basis string

// The values of Decision.By, and those that Decision.DecidedBy adds.
const (
	ByVotes     Basis = "votes"
	ByChecks    Basis = "checks"
	BySkill     Basis = "skill"     // skill of agents, which told different answers apart
	ByAgreement Basis = "agreement" // equal first answers of a majority
	ByQuorum    Basis = "quorum"    // a majority, while other steps ran
	ByPresenter Basis = "presenter" // nobody votes
	ByForce     Basis = "force"     // a person, the clock or a limit
)

// CutOff says of an agent that a quorum has decided before its step ended.
const CutOff = "cut off by the quorum"

// cutsOff reports whether the decision is that of a quorum that has cut off the agent's step.
func (d Decision) cutsOff(agent string) bool {
	return d.By == ByQuorum && slices.Contains(d.Cut, agent)
}

// Support is the support of a winning answer. Unknown parts are nil.
type Support struct {
	Share      float64  `json:"share"`      // share of the active agents with a fresh vote for the winner; by agreement, with an equal answer
	Confidence *float64 `json:"confidence"` // mean of those voters
	Agreement  *float64 `json:"agreement"`  // share of the others' independent first answers that equal it
	Checks     *float64 `json:"checks"`     // share of the checks that it passed
	Spread     *float64 `json:"spread"`     // Agreement less the share of the most frequent other first answer
}

// DecidedBy returns the reason for the decision, or "" if there is no winner.
func (d Decision) DecidedBy() Basis {
	status := d.Status
	if d.Despite != "" {
		status = d.Despite
	}
	switch {
	case d.Winner == "":
		return ""
	case status.isForced():
		return ByForce
	case d.By != "":
		return d.By
	case status == Presented:
		return ByPresenter
	}
	return ByVotes
}

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

func (d Decision) text() string {
	if d.Status == Cancelled {
		return "the session was cancelled"
	}
	if d.Winner == "" {
		why := string(d.Status) + ": " + d.Cause.text()
		if d.Final != nil {
			why += "; the best answer is " + d.Final.Label
		}
		return why
	}
	text := string(d.Status) + ": " + d.Winner + " (" + d.WinnerLabel + ")"
	switch cut := strings.Join(d.Cut, ", "); {
	case len(d.Cut) == 0:
	case d.By == ByQuorum:
		text += " by a quorum; " + cut + " " + CutOff
	default:
		text += " without " + cut
	}
	if d.Status == Undecided && d.Support != nil {
		text += fmt.Sprintf(" has the support of %.0f percent of the agents", 100*d.Support.Share)
	}
	return text
}

func (d Decision) noun() string {
	switch {
	case d.Status == Cancelled:
		return "cancellation"
	case d.Winner == "":
		return "end of the session"
	}
	return "decision"
}

func (d Decision) clone() Decision {
	d.Votes, d.Voters, d.Tied, d.Final = slices.Clone(d.Votes), slices.Clone(d.Voters), slices.Clone(d.Tied), shallowCopy(d.Final)
	d.Cut, d.Support = slices.Clone(d.Cut), shallowCopy(d.Support)
	return d
}

func shallowCopy[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

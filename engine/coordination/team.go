// Rules 1, 2, 47 and 58 to 61: the agents, and the steps that they can resume.

package coordination

import (
	"cmp"
	"slices"

	"conclave/engine/llm"
)

// roster is the team: its settings, its agents, and the counts that go over all of them.
type roster struct {
	Config   Config   `json:"config"`
	Agents   []*agent `json:"agents"` // agents in configured order
	Round    int      `json:"round"`  // the newest round, from 1; 0 before the first
	Revotes  int      `json:"revotes"`
	Cast     int      `json:"cast,omitempty"` // number of votes accepted
	Launches int      `json:"launches"`       // number of launch IDs given

	LongestCall float64 `json:"longest_call,omitempty"` // longest model call of an ended step, in seconds
}

func (r *roster) agentOf(id string) *agent {
	if i := r.indexOf(id); i >= 0 {
		return r.Agents[i]
	}
	return nil
}

func (r *roster) indexOf(id string) int {
	return slices.IndexFunc(r.Agents, func(a *agent) bool { return a.ID == id })
}

func (r *roster) agentsWhere(match func(*agent) bool) []*agent {
	var matching []*agent
	for _, a := range r.Agents {
		if match(a) {
			matching = append(matching, a)
		}
	}
	return matching
}

func idsOf(agents []*agent) []string {
	var ids []string
	for _, a := range agents {
		ids = append(ids, a.ID)
	}
	return ids
}

// byNumber returns the agents in the order of their anonymous numbers, which does not reveal
// the configured order.
func (r *roster) byNumber() []*agent {
	agents := make([]*agent, len(r.Agents))
	for _, a := range r.Agents {
		agents[a.Number-1] = a
	}
	return agents
}

func (r *roster) hasRunningStep() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Run != nil })
}

// isBusy reports whether the others wait for a running step.
func (r *roster) isBusy() bool { return slices.ContainsFunc(r.Agents, (*agent).isWorking) }

// countActive returns the number of active agents, the N of the majority.
func (r *roster) countActive() int { return len(r.agentsWhere((*agent).isActive)) }

func (r *roster) absentAgents() []*agent {
	return r.agentsWhere(func(a *agent) bool { return a.Absent })
}

// countPresent counts the agents that have joined and not failed, those that are away too.
func (r *roster) countPresent() int {
	return len(r.agentsWhere(func(a *agent) bool { return a.Error == nil && !a.Absent }))
}

func (r *roster) shownAnswers() []Shown {
	var all []Shown
	for _, a := range r.byNumber() {
		if a.hasAnswer() {
			all = append(all, a.shownAnswer())
		}
	}
	return all
}

func (r *roster) allSeen() []Seen {
	l := Launch{Shown: r.shownAnswers()}
	return l.seenAnswers()
}

func (r *roster) countAnswers() int {
	n := 0
	for _, a := range r.Agents {
		n += a.answerCount()
	}
	return n
}

func (r *roster) roundOf(a *agent) int {
	if r.Config.Pacing == pacingRounds {
		return r.Round
	}
	return a.Rounds
}

// agent is the state of one agent.
type agent struct {
	ID       string       `json:"id"`
	Number   int          `json:"number"`             // anonymous number, from 1
	Run      *runningStep `json:"run"`                // nil when no step runs
	Step     int          `json:"step"`               // number of the last finished step, 0 before the first
	Steps    int          `json:"steps"`              // ended steps of this attempt, with or without an action; limited by MaxStepsPerAgent
	Answers  []int        `json:"answers"`            // steps of its accepted answers; the M-th one is agent<N>.<M>
	Newest   int          `json:"newest"`             // ledger entry of its latest answer, 0 without one
	Digest   Digest       `json:"digest,omitzero"`    // digest of its latest answer
	Verdicts string       `json:"verdicts,omitempty"` // verdicts of the checks on its latest answer, by index
	First    Digest       `json:"first,omitzero"`     // digest of its first answer of this attempt, if no other was shown to it
	Copied   bool         `json:"copied,omitempty"`   // its latest answer equals one that its author was shown
	Ballot   *ballot      `json:"ballot"`             // its vote, fresh or stale; nil without one
	Error    *Failure     `json:"error"`              // its failure; nil while it is active
	Away     Outage       `json:"away,omitempty"`     // the outage behind Error

	Absent  bool           `json:"absent,omitempty"`  // it has not joined the staged team
	Halt    *halt          `json:"halt,omitempty"`    // its stop, fresh or stale; nil without one
	Base    int            `json:"base,omitempty"`    // answers of earlier attempts of the team, which no longer count
	Rounds  int            `json:"rounds,omitempty"`  // launches, without resumed steps
	Begun   int            `json:"begun,omitempty"`   // those before this attempt of the team, and before its newest join
	Ran     bool           `json:"ran,omitempty"`     // a step of this attempt has ended
	Known   []Seen         `json:"known,omitempty"`   // the answers shown to its last finished step
	Noted   []Seen         `json:"noted,omitempty"`   // the answers that reached its steps while they ran, as far as noted
	Heard   int            `json:"heard,omitempty"`   // the last human message it received
	Streak  int            `json:"streak,omitempty"`  // its answers since the last news
	Again   bool           `json:"again,omitempty"`   // its step ended itself for news
	Rest    *resumableStep `json:"rest,omitempty"`    // the suspended or failed step to resume
	Left    string         `json:"left,omitempty"`    // token of one that is not resumed, for its files
	Retried bool           `json:"retried,omitempty"` // a person has retried its failed step

	Critique *Critique `json:"critique,omitempty"` // the last evaluation of an answer of this attempt, even one that failed
	Judged   *Critique `json:"judged,omitempty"`   // the last one that did not fail

	Usage llm.Usage `json:"usage"` // usage of all its steps, failed ones and evaluations of its answers included
}

func (a *agent) isActive() bool {
	return a != nil && a.Error == nil && !a.Absent && (a.Run == nil || !a.Run.Away)
}

func (a *agent) hasAnswer() bool { return a != nil && len(a.Answers) > a.Base }

func (a *agent) answerCount() int { return len(a.Answers) - a.Base }

func (a *agent) latestStep() int {
	if !a.hasAnswer() {
		return 0
	}
	return a.Answers[len(a.Answers)-1]
}

func (a *agent) shownAnswer() Shown {
	return Shown{Agent: a.ID, Number: a.Number, Label: a.latestLabel(), Step: a.latestStep(), Seq: a.Newest}
}

func (a *agent) isWorking() bool { return a.Run != nil && !a.Run.Away }

// hasOpenStep reports whether the agent has a step to resume, or to begin again in the same round.
func (a *agent) hasOpenStep() bool { return a.Rest != nil || a.Again || a.Retried }

// currentCritique returns the evaluation of the agent's newest answer, or nil.
func (a *agent) currentCritique() *Critique {
	if a.Critique == nil || a.Critique.Step != a.latestStep() || a.Critique.Verdict == "" {
		return nil
	}
	return a.Critique
}

func (a *agent) hasTasks() bool {
	c := a.currentCritique()
	return c != nil && c.Tasks
}

func (a *agent) keepCritique(c Critique) *Critique {
	before := a.Critique
	c.Plateau = before != nil && before.Ceiling == CeilingReached && c.Ceiling == CeilingReached && c.totalScore() <= before.totalScore()+plateauGain
	a.Critique, a.Judged = &c, &c
	return a.Critique
}

// plateauGain is the largest gain in the total score that does not count as an improvement.
const plateauGain = 1

func (r *runningStep) awaitsOthers() bool { return r != nil && len(r.Awaits) > 0 }

// beginAttempt starts a new attempt of the team for the agent. Step numbers, labels and usage
// continue; its answers, vote and stop no longer count.
func (a *agent) beginAttempt() {
	a.Base, a.Newest, a.Steps, a.Streak, a.Begun = len(a.Answers), 0, 0, 0, a.Rounds
	a.Ballot, a.Halt, a.Known, a.Rest, a.Left = nil, nil, nil, nil, ""
	a.Ran, a.Again, a.Retried = false, false, false
	a.Digest, a.First, a.Copied, a.Critique, a.Judged, a.Verdicts = Digest{}, Digest{}, false, nil, nil, ""
}

// newResumable keeps a step. One that reports no model call has used nothing, or its usage is unknown.
func newResumable(run *Launch, e End, token string) *resumableStep {
	launch := *run
	launch.AwaySince = e.AwaySince
	return &resumableStep{Launch: launch, Token: token, Uncounted: e.Usage.ModelCalls == 0}
}

// filesFrom returns the token of the agent's earlier step whose files a new step starts with.
func (a *agent) filesFrom() string {
	if a.Rest == nil {
		return a.Left
	}
	return cmp.Or(a.Rest.Token, a.Rest.Launch.ResumeFrom)
}

// runningStep is a launched step that has not ended.
type runningStep struct {
	Launch    Launch `json:"launch"`
	Cancelled bool   `json:"cancelled,omitempty"` // its Cancel was handed out

	Out  *Doing `json:"out,omitempty"`  // the outage of its model that it has reported; nil while the model replies
	Away bool   `json:"away,omitempty"` // the others go on without it

	// Awaits are the calls for whose results the step waits, of the caller or of people, without an activity; Token is
	// then its execution token.
	Awaits []Call `json:"awaits,omitempty"`
	Token  string `json:"token,omitempty"`
}

// resumableStep is a suspended or failed step that can be resumed.
type resumableStep struct {
	Launch    Launch `json:"launch"`
	Token     string `json:"token"`               // its execution token; empty if it left nothing to resume
	Uncounted bool   `json:"uncounted,omitempty"` // its usage is unknown
	Late      bool   `json:"late,omitempty"`      // it reached an action after the session had failed
}

// ballot is an accepted vote that has not been withdrawn: a Choice, whose fields keep their places in the
// JSON of the state.
type ballot struct {
	Target      string   `json:"target"`
	TargetLabel string   `json:"target_label"`
	Step        int      `json:"step"`
	Reason      string   `json:"reason"`
	Seen        []Seen   `json:"seen"` // answers seen, in byte order of the agents' IDs
	Heard       int      `json:"heard,omitempty"`
	Confidence  *float64 `json:"confidence,omitempty"`
}

// halt is an accepted stop that has not been withdrawn.
type halt struct {
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // truncated text
	Step    int        `json:"step"`    // 0 if the session stopped the agent at its limit
	Seen    []Seen     `json:"seen"`    // answers seen, in byte order of the agents' IDs
	Heard   int        `json:"heard,omitempty"`
}

func (a *agent) answerLabel(m int) string { return Label(a.Number, m) }

func (a *agent) latestLabel() string {
	if !a.hasAnswer() {
		return ""
	}
	return a.answerLabel(len(a.Answers))
}

// namedRevision returns the label of the answer that a vote for target names: named, if that is
// one of target's labels; else the answer that the voter saw; else the latest.
func namedRevision(target *agent, named string, seen []Seen) string {
	for m := range target.Answers {
		if target.answerLabel(m+1) == named {
			return named
		}
	}
	if m := slices.Index(target.Answers, seenStep(seen, target.ID)); m >= 0 {
		return target.answerLabel(m + 1)
	}
	return target.latestLabel()
}

package coordination

import "slices"

// Critique is the evaluation of an agent's answer by the evaluator of rounds. Its
// Verdict is empty if there was no outcome.
type Critique struct {
	Step    int           `json:"step"`            // number of the answer's step
	Label   string        `json:"label,omitempty"` // label of the answer, in a View
	Verdict RoundVerdict  `json:"verdict,omitempty"`
	Scores  []RoundScore  `json:"scores,omitempty"`
	Ceiling CeilingStatus `json:"ceiling_status,omitempty"`
	Tasks   bool          `json:"tasks,omitempty"` // the evaluation has tasks, the plan of the agent's next step

	// Plateau is set if this evaluation and the previous one have found the ceiling reached,
	// and the total score has hardly risen.
	Plateau bool `json:"plateau,omitempty"`
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

// plateauGain is the largest gain in the total score that does not count as an improvement.
const plateauGain = 1

// total returns the sum of the scores.
func (c *Critique) total() float64 {
	sum := 0.0
	for _, s := range c.Scores {
		sum += s.Score
	}
	return sum
}

// critiqueOf returns the evaluation of the agent's newest answer, or nil.
func (a *agent) critiqueOf() *Critique {
	if a.Critique == nil || a.Critique.Step != a.latest() || a.Critique.Verdict == "" {
		return nil
	}
	return a.Critique
}

// tasked reports whether the evaluation of the agent's newest answer has tasks.
func (a *agent) tasked() bool {
	c := a.critiqueOf()
	return c != nil && c.Tasks
}

// unevaluated reports whether the agent's newest answer has to be evaluated before its next step.
func (s *State) unevaluated(a *agent) bool {
	due := s.Config.Critiques && a.answered() && (a.Critique == nil || a.Critique.Step != a.latest())
	return due && slices.Contains(s.offered(a), NewAnswer)
}

// critiques starts the evaluations that precede a wave, and returns the agents to launch at
// the same time. With pacing by rounds there are no such agents beside an evaluation.
func (s *State) critiques(wave []*agent) (launches []Launch, beside []*agent) {
	for _, a := range wave {
		if !s.unevaluated(a) {
			beside = append(beside, a)
			continue
		}
		left := a.Left
		launches = append(launches, s.mint(a, Launch{
			Agent: a.ID, Number: a.Number, Round: max(1, s.roundOf(a)), Purpose: Evaluation, After: a.latest(),
			Answers: len(a.Answers), Given: a.answerCount(), Shown: s.shownTo(a), Messages: s.messagesFor(a), Offered: []Action{SubmitEvaluation},
		}))
		a.Left = left
	}
	if len(launches) > 0 && s.Config.Pacing == pacingRounds {
		return launches, nil
	}
	return launches, beside
}

// critiqueEnd handles the end of an evaluation. A failed evaluation is not repeated.
func (s *State) critiqueEnd(a *agent, run *Launch, event ending) {
	label := a.label(1 + slices.Index(a.Answers, run.After))
	switch e := event.(type) {
	case Suspended:
		a.Rest = s.rest(run, e.End, e.Token)
		s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Text: "the evaluation of " + label + " was suspended"})
		return
	case Critiqued:
		c := a.critiqued(Critique{Step: run.After, Verdict: e.Verdict, Scores: e.Scores, Ceiling: e.Ceiling, Tasks: e.Tasks})
		s.note(Entry{Kind: EntryCritiqued, Agent: a.ID, Step: run.After, Label: label, Text: "the evaluation of " + label + ": " + c.text()})
		return
	case Failed:
		s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: run.After, Label: label, Reason: truncate(e.Cause.Message), Text: label + " was not evaluated: " + truncate(e.Cause.Type)})
	default:
		s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: run.After, Label: label, Text: label + " was not evaluated"})
	}
	a.Critique = &Critique{Step: run.After}
}

// critiqued sets the agent's last evaluation, and whether the agent has reached a plateau.
func (a *agent) critiqued(c Critique) *Critique {
	before := a.Critique
	c.Plateau = before != nil && before.Ceiling == CeilingReached && c.Ceiling == CeilingReached && c.total() <= before.total()+plateauGain
	a.Critique, a.Judged = &c, &c
	return a.Critique
}

// text describes the evaluation in the timeline.
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

// atCeiling reports whether the newest answer of every active agent is at its plateau.
func (s *State) atCeiling() bool {
	below := func(a *agent) bool {
		c := a.critiqueOf()
		return a.active() && (c == nil || !c.Plateau)
	}
	return s.Config.StopAtCeiling && s.active() > 0 && !slices.ContainsFunc(s.Agents, below)
}

// ofFinale reports whether a step presents or judges the final answer.
func (p Purpose) ofFinale() bool { return p == Present || p == Evaluate }

// drafted counts the cost of a preparation.
func (s *State) drafted(e Drafted) {
	if s.Done() {
		s.ignore("the cost of a preparation ignored")
		return
	}
	s.Preparation = s.Preparation.Add(e.Usage)
	s.note(Entry{Kind: entryDrafted, Reason: truncate(e.Reason), Text: e.Text})
}

// leave keeps the files of a step that ended without an action for the agent's next step.
func (s *State) leave(a *agent, token string) {
	if token != "" {
		a.Left = token
	}
}

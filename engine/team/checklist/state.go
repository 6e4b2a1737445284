package checklist

import (
	"slices"
	"strings"

	"conclave/engine/llm"
)

// State is the progress of a step's checklist. It is the fold over the step's results and the
// answers shown by updates, in order.
type State struct {
	policy   Policy
	accepted int                           // number of checklists accepted in this step
	latest   *Result                       // latest checklist that is accepted or can be corrected
	history  []Result                      // accepted results
	pending  []string                      // labels shown by updates and not scored yet
	scores   map[string]map[string]float64 // scores of the latest accepted checklist, never written to
}

// New begins the checklist of a step.
func New(p Policy) *State {
	return &State{policy: p.normal()}
}

// Submitted reports whether a checklist was accepted in this step.
func (s *State) Submitted() bool { return s.accepted > 0 }

// Accepted returns the scores of the checklists accepted in this step, in order.
func (s *State) Accepted() []Scores {
	var all []Scores
	for _, r := range s.history {
		all = append(all, r.scores())
	}
	return all
}

// Learn folds a result into the state. Errors that no payload can correct do not change the
// state.
func (s *State) Learn(r Result) {
	switch {
	case r.Status == accepted:
		s.accepted++
		s.latest = &r
		s.history = append(s.history, r)
		s.scores = r.PerAgentScores
		s.pending = slices.DeleteFunc(s.pending, func(label string) bool { return slices.Contains(r.Rechecked, label) })
	case r.RequiresResubmission:
		s.latest = &r
	}
}

// Injected folds in the labels of answers that an update showed. Each replaces its agent's
// older answer and is pending until it is scored.
func (s *State) Injected(labels []string) {
	for _, label := range labels {
		same := func(other string) bool { return agent(other) == agent(label) }
		s.pending = append(slices.DeleteFunc(s.pending, same), label)
		if i := slices.IndexFunc(s.policy.Labels, same); i >= 0 {
			s.policy.Labels[i] = label
		} else {
			s.policy.Labels = append(s.policy.Labels, label)
		}
	}
}

// Recheck returns a sentence about the checklist for an update. It is empty unless answers
// arrived after a checklist was accepted.
func (s *State) Recheck() string {
	if !s.recheck() {
		return ""
	}
	if s.policy.Decomposition {
		return "These came after your checklist. Take them in where they touch your part, then score your part once more with submit_checklist."
	}
	return "These came after your checklist. Score them with one more submit_checklist: " + strings.Join(s.pending, ", ") + ". Scores you gave to other answers still count."
}

// Evaluate returns the results of a reply's checklist calls, by call ID, where each call sees
// the effect of the earlier ones. It also returns the results to learn and the last valid
// proposal, or nil. It does not change the state.
func (s *State) Evaluate(calls []llm.ToolCall) (texts map[string]string, results []Result, proposed *Proposal) {
	ahead := s.clone()
	texts = make(map[string]string)
	for _, call := range calls {
		switch call.Name {
		case submitChecklist:
			r := ahead.submit(call.Arguments)
			ahead.Learn(r)
			results = append(results, r)
			texts[call.ID] = encode(r)
		case proposeImprovements:
			p := ahead.propose(call.Arguments)
			if texts[call.ID] = encode(p); p.Valid {
				proposed = p.proposal()
			}
		}
	}
	return texts, results, proposed
}

// clone copies the memory that Learn and Injected write to.
func (s *State) clone() *State {
	c := *s
	c.history = slices.Clone(s.history)
	c.pending = slices.Clone(s.pending)
	c.policy.Labels = slices.Clone(s.policy.Labels)
	return &c
}

// recheck reports whether answers have arrived since a checklist was accepted.
func (s *State) recheck() bool { return s.accepted > 0 && len(s.pending) > 0 }

// answered reports whether the agent has an answer of its own.
func (s *State) answered() bool { return s.policy.Own != "" }

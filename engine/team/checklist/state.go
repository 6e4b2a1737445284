package checklist

import (
	"slices"
	"strings"

	"conclave/engine/llm"
)

// State is a step's checklist so far: a fold over the results told and the
// answers injected, in the order in which they were.
type State struct {
	policy   Policy
	accepted int                           // checklists accepted in this step
	latest   *Result                       // the latest one that was looked at, accepted or to be mended
	history  []Result                      // accepted ones, of earlier steps too
	pending  []string                      // labels that came by updates and are not scored
	scores   map[string]map[string]float64 // of the latest accepted one, never written to
}

// New begins the checklist of a step.
func New(p Policy) *State {
	p = p.normal()
	earlier := slices.DeleteFunc(p.History, func(r Result) bool { return r.Status != Accepted })
	return &State{policy: p, history: earlier}
}

// Submitted reports whether a checklist was accepted in this step. It closes the
// window for updates where those are otherwise left to a restart.
func (s *State) Submitted() bool { return s.accepted > 0 }

// Learn takes in a result that the model was told. What cannot be mended by
// another payload leaves the state as it is.
func (s *State) Learn(r Result) {
	switch {
	case r.Status == Accepted:
		s.accepted++
		s.latest = &r
		s.history = append(s.history, r)
		s.scores = r.PerAgentScores
		s.pending = slices.DeleteFunc(s.pending, func(label string) bool { return slices.Contains(r.Rechecked, label) })
	case r.RequiresResubmission:
		s.latest = &r
	}
}

// Injected takes in the labels of answers that an update showed. Each takes the
// place of its agent's older one and is pending until it is scored.
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

// Recheck is what an update says about the checklist: empty unless answers came
// after one was accepted.
func (s *State) Recheck() string {
	if !s.recheck() {
		return ""
	}
	if s.policy.Decomposition {
		return "These came after your checklist. Take them in where they touch your part, then score your part once more with submit_checklist."
	}
	return "These came after your checklist. Score them with one more submit_checklist: " + strings.Join(s.pending, ", ") + ". Scores you gave to other answers still count."
}

// Evaluate answers the checklist calls of one reply, by call ID, each as if the
// ones before it had been learned. It changes nothing; other calls are left out.
func (s *State) Evaluate(calls []llm.ToolCall) map[string]string {
	ahead := s.clone()
	told := make(map[string]string)
	for _, call := range calls {
		switch call.Name {
		case SubmitChecklist:
			r := ahead.Submit(call.Arguments)
			ahead.Learn(r)
			told[call.ID] = r.Told()
		case ProposeImprovements:
			told[call.ID] = ahead.Propose(call.Arguments).Told()
		}
	}
	return told
}

// clone shares no memory that Learn writes to.
func (s *State) clone() *State {
	c := *s
	c.history = slices.Clone(s.history)
	c.pending = slices.Clone(s.pending)
	c.policy.Labels = slices.Clone(s.policy.Labels)
	return &c
}

// recheck reports whether answers came after an accepted checklist.
func (s *State) recheck() bool { return s.accepted > 0 && len(s.pending) > 0 }

// answered reports whether the agent has an answer of its own.
func (s *State) answered() bool { return s.policy.Own != "" }

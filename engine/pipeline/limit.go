package pipeline

import (
	"fmt"

	"conclave/engine/llm"
)

// The types of failures at a limit.
const (
	TimeOver        = "TimeOver"
	BudgetSpent     = "BudgetSpent"
	transitionLimit = "TransitionLimit"
)

// tally counts the visits of a step and its spending.
type tally struct {
	Visits  int       `json:"visits,omitempty"`
	Usage   llm.Usage `json:"usage,omitzero"`
	Seconds float64   `json:"seconds,omitempty"`
}

// count adds to the tally of a step.
func (s *State) count(step string, visits int, usage llm.Usage, seconds float64) {
	if s.Spent == nil {
		s.Spent = map[string]tally{}
	}
	t := s.Spent[step]
	s.Spent[step] = tally{Visits: t.Visits + visits, Usage: t.Usage.Add(usage), Seconds: t.Seconds + seconds}
}

// tryAgain resets the limits of the pending step, which a person retries.
func (s *State) tryAgain() {
	l := s.Pending
	if l == nil {
		return
	}
	if t, ok := s.Spent[l.Step]; ok {
		s.Spent[l.Step] = tally{Visits: t.Visits}
	}
	s.Pending = nil
	s.pend(*l)
}

// visit returns the step to enter for a destination: the destination itself or, once its
// visits are used up, its replacement (rule 18). It returns nil if the run ends instead.
func (s *State) visit(to string) *Node {
	for range s.Graph.Steps {
		n := s.Graph.node(to)
		if n == nil || !s.exhausted(n) {
			return n
		}
		text := fmt.Sprintf("%s was entered %d times, as often as max_visits allows", n.Name, n.MaxVisits)
		if n.Instead != "" {
			text += "; " + n.Instead + " takes its place"
		}
		s.note(n.Name, text)
		to = n.Instead
	}
	return nil
}

func (s *State) exhausted(n *Node) bool {
	return n.MaxVisits > 0 && s.Spent[n.Name].Visits >= n.MaxVisits
}

// closed lists the destinations that a step cannot call because they have used up their
// visits.
func (s *State) closed(n *Node) []string {
	var closed []string
	for _, to := range n.Destinations {
		if d := s.Graph.node(to); d != nil && s.exhausted(d) {
			closed = append(closed, to)
		}
	}
	return closed
}

// pend makes a launch pending with its allowances. If a limit of the step or of the run has
// been reached, it ends the step or the run instead (rule 19).
func (s *State) pend(l Launch) {
	if s.overspent() {
		return
	}
	if cause := s.allow(&l); cause != nil {
		s.exceed(l, *cause)
		return
	}
	if l.Used >= l.Most {
		s.trace(TraceEntry{Step: l.Step, Status: MaxIterations})
		s.remember(Ref{Step: l.Step}, false, l.note(MaxIterations, nil))
		s.finish(Ref{Step: l.Step}, outcome{status: MaxIterations})
		return
	}
	s.Pending = &l
}

// allow sets the allowances of a launch to the remaining limits of its step and of the run.
// It returns a failure if the step has no time or money left.
func (s *State) allow(l *Launch) *Failure {
	n, t := s.Graph.node(l.Step), s.Spent[l.Step]
	l.Most, l.CostUSD = n.MaxIterations, 0
	if limit := s.Graph.CostUSD; limit > 0 {
		l.CostUSD = limit - s.Usage.AtLeastUSD()
	}
	if limit, spent := n.Limits.CostUSD, t.Usage.AtLeastUSD(); limit > 0 {
		if spent >= limit {
			return &Failure{BudgetSpent, fmt.Sprintf("%s spent %s, and its limits.cost_usd is %s", l.Step, llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4))}
		}
		if l.CostUSD == 0 || limit-spent < l.CostUSD {
			l.CostUSD = limit - spent
		}
	}
	if limit := n.Limits.Seconds; limit > 0 {
		if l.Seconds = float64(limit) - t.Seconds; l.Seconds <= 0 {
			return &Failure{TimeOver, fmt.Sprintf("%s ran for %.0f s, and its limits.seconds is %d", l.Step, t.Seconds, limit)}
		}
	}
	if limit := n.Limits.ModelCalls; limit > 0 {
		l.Most = min(l.Most, l.Used+l.Made+limit-int(t.Usage.ModelCalls))
	}
	return nil
}

// exceed fails a step that has reached a limit before it was launched.
func (s *State) exceed(l Launch, cause Failure) {
	s.trace(TraceEntry{Step: l.Step, Status: Failed, Error: &cause})
	s.fault(l, Ref{Step: l.Step}, outcome{status: Failed, failed: true}, cause)
}

// overspent ends the run if its money is spent, and reports whether it did.
func (s *State) overspent() bool {
	limit, spent := s.Graph.CostUSD, s.Usage.AtLeastUSD()
	if limit == 0 || spent < limit {
		return false
	}
	s.endAtLimit(BudgetSpent, fmt.Sprintf("the run spent %s, and limits.cost_usd is %s", llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4)))
	return true
}

// timeUp ends a run whose time is over.
func (s *State) timeUp() {
	if !s.Done() {
		s.endAtLimit(TimeOver, fmt.Sprintf("the run's time of %d s is over: limits.seconds", s.Graph.Seconds))
	}
}

// endAtLimit ends a run at one of its own limits.
func (s *State) endAtLimit(kind, reason string) {
	s.end(Failed, reason, nil)
	s.Result.Limit = kind
}

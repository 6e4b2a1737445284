package pipeline

import (
	"fmt"
	"slices"

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
	Retries int       `json:"retries,omitempty"` // of the present visit
	Usage   llm.Usage `json:"usage,omitzero"`
	Seconds float64   `json:"seconds,omitempty"`
}

func (s *State) countUsage(step string, visits int, usage llm.Usage, seconds float64) {
	if s.Spent == nil {
		s.Spent = map[string]tally{}
	}
	t := s.Spent[step]
	if visits > 0 {
		t.Retries = 0
	}
	s.Spent[step] = tally{Visits: t.Visits + visits, Retries: t.Retries, Usage: t.Usage.Add(usage), Seconds: t.Seconds + seconds}
}

func (s *State) tryAgain() {
	l := s.Pending
	if l == nil {
		return
	}
	if t, ok := s.Spent[l.Step]; ok {
		s.Spent[l.Step] = tally{Visits: t.Visits}
	}
	s.Pending = nil
	s.makePending(*l)
}

// stepToEnter returns the step to enter for a destination: the destination itself or, once its
// visits are used up, its replacement (rule 18). It returns nil if the run ends instead.
func (s *State) stepToEnter(to string) *Node {
	for range s.Graph.Steps {
		n := s.Graph.findNode(to)
		if n == nil || !s.hasUsedVisits(n) {
			return n
		}
		text := fmt.Sprintf("%s was entered %d times, as often as max_visits allows", n.Name, n.MaxVisits)
		if n.Instead != "" {
			text += "; " + n.Instead + " takes its place"
		}
		s.addNote(n.Name, text)
		to = n.Instead
	}
	return nil
}

func (s *State) hasUsedVisits(n *Node) bool {
	return n.MaxVisits > 0 && s.Spent[n.Name].Visits >= n.MaxVisits
}

// closedDestinations lists the destinations that a step cannot call because they have used up their visits.
func (s *State) closedDestinations(n *Node) []string {
	var closed []string
	for _, to := range n.Destinations {
		if d := s.Graph.findNode(to); d != nil && s.hasUsedVisits(d) {
			closed = append(closed, to)
		}
	}
	return closed
}

// makePending makes a launch pending with its allowances. If a limit of the step or of the run has
// been reached, it ends the step or the run instead (rule 19).
func (s *State) makePending(l Launch) {
	if s.endIfOverspent() {
		return
	}
	if cause := s.setAllowances(&l); cause != nil {
		s.traceStep(TraceEntry{Step: l.Step, Status: Failed, Error: cause})
		s.followFailure(l, Ref{Step: l.Step}, outcome{status: Failed, failed: true}, *cause)
		return
	}
	if l.Used >= l.Most {
		s.traceStep(TraceEntry{Step: l.Step, Status: MaxIterations})
		s.rememberStep(Ref{Step: l.Step}, false, l.statusNote(MaxIterations, nil))
		s.chooseSuccessor(Ref{Step: l.Step}, outcome{status: MaxIterations})
		return
	}
	s.Pending = &l
}

// setAllowances sets the allowances of a launch to the remaining limits of its step and of the run.
// It returns a failure if the step has no time or money left.
func (s *State) setAllowances(l *Launch) *Failure {
	n, t := s.Graph.findNode(l.Step), s.Spent[l.Step]
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

func (s *State) endIfOverspent() bool {
	limit, spent := s.Graph.CostUSD, s.Usage.AtLeastUSD()
	if limit == 0 || spent < limit {
		return false
	}
	s.endAtLimit(BudgetSpent, fmt.Sprintf("the run spent %s, and limits.cost_usd is %s", llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4)))
	return true
}

func (s *State) endAtLimit(kind, reason string) {
	s.endRun(Failed, reason, nil)
	s.Result.Limit = kind
}

// Retries make the run try a step again that ends with one of the statuses. The zero value never does.
type Retries struct {
	Attempts int      `json:"attempts,omitempty"` // how often the step is tried in one visit, the first time included
	Seconds  float64  `json:"seconds,omitempty"`  // the first wait; each wait is twice as long as the one before
	On       []Status `json:"on,omitempty"`
}

// longestWait bounds the wait before a retry, in seconds.
const longestWait = 3600

// retryStep tries a step again with the launch l, if its retry says so (rule 24). Team is the status of its team.
func (s *State) retryStep(l Launch, status Status, team string) bool {
	n, t := s.Graph.findNode(l.Step), s.Spent[l.Step]
	if t.Retries+1 >= n.Retry.Attempts || !slices.Contains(n.Retry.On, status) && !slices.Contains(n.Retry.On, Status(team)) {
		return false
	}
	if s.setAllowances(&l) != nil {
		return false // it would end at once
	}
	t.Retries++
	s.Spent[l.Step] = t
	text := fmt.Sprintf("%s is tried again, %d of %d", l.Step, t.Retries+1, n.Retry.Attempts)
	if n.Retry.Seconds > 0 {
		s.Waits++
		s.Wait = &Wait{ID: s.Waits, Seconds: min(longestWait, n.Retry.Seconds*float64(int(1)<<min(t.Retries-1, 20)))}
		text += fmt.Sprintf(", in %.0f s", s.Wait.Seconds)
	}
	s.addNote(l.Step, text)
	s.makePending(l)
	return true
}

// DefaultIterations is the limit of model calls of a step that sets none.
const DefaultIterations = 50

// Graph is a checked pipeline definition: every name in it is a step's.
type Graph struct {
	Start string `json:"start"`
	Steps []Node `json:"steps"`

	MaxTransitions int `json:"max_transitions"`
	MaxDepth       int `json:"max_call_depth"` // most waiting callers

	// Seconds and CostUSD limit the whole run; 0 is no limit. The driver keeps the time.
	Seconds int     `json:"seconds,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`

	// Park makes a run wait for a person when a step fails.
	Park bool `json:"park,omitempty"`

	Result string `json:"result,omitempty"` // the step whose text is that of the run; empty for the last one
}

// Node is one step of a graph.
type Node struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`

	// Destinations are the steps that an agent may jump to and call.
	Destinations []string `json:"destinations,omitempty"`

	// Next is the static rule: the first matching branch applies.
	Next []Branch `json:"next,omitempty"`

	MaxIterations int    `json:"max_iterations"` // model calls of a visit, at least 1
	Limits        Limits `json:"limits,omitzero"`

	// MaxVisits limits how often the step is entered; 0 is no limit. After that, Instead is
	// entered in its place; if Instead is empty, the run ends.
	MaxVisits int    `json:"max_visits,omitempty"`
	Instead   string `json:"instead,omitempty"`

	History Policy `json:"history,omitempty"`

	Retry Retries `json:"retry,omitzero"`

	Reads []string `json:"reads,omitempty"` // steps whose values its templates name
	End   string   `json:"end,omitempty"`   // the end of a run that ends with this step, in words of its own
}

// Limits bound all visits of a step together. 0 sets no limit.
type Limits struct {
	Seconds    int     `json:"seconds,omitempty"`
	ModelCalls int     `json:"model_calls,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
}

// Kind is who carries out a step.
type Kind string

// The kinds of steps.
const (
	Agent   Kind = "agent"   // a model with tools
	Tools   Kind = "tools"   // configured tool calls, without a model
	Session Kind = "session" // a team: its decision is the step's text
)

// Status is how a step, or a whole run, ended.
type Status string

// The statuses of steps. A run has the same except for CallPending.
const (
	Completed     Status = "completed"
	Cancelled     Status = "cancelled"
	Failed        Status = "error"
	MaxIterations Status = "max_iterations"
	CallPending   Status = "call_pending"
)

func (g *Graph) findNode(name string) *Node {
	i := slices.IndexFunc(g.Steps, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Steps[i]
}

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
	stepLimit       = "StepLimit"
)

// The types of failures of a step that forks.
const (
	BranchFailed = "BranchFailed"
	NoList       = "NoList"
	Conflict     = "Conflict"
)

// tally counts the visits of a step and its spending.
type tally struct {
	Visits  int       `json:"visits,omitempty"`
	Retries int       `json:"retries,omitempty"` // of the present visit
	Usage   llm.Usage `json:"usage,omitzero"`
	Seconds float64   `json:"seconds,omitempty"`
}

func (b *lane) countUsage(step string, visits int, usage llm.Usage, seconds float64) {
	if b.Spent == nil {
		b.Spent = map[string]tally{}
	}
	t := b.Spent[step]
	if visits > 0 {
		t.Retries = 0
	}
	b.Spent[step] = tally{Visits: t.Visits + visits, Retries: t.Retries, Usage: t.Usage.Add(usage), Seconds: t.Seconds + seconds}
}

// tryAgain makes the pending step of a lane pending again, with the limits of the step anew (rule 19).
func (b *lane) tryAgain(s *State) {
	l := b.Pending
	if l == nil {
		return
	}
	s.eachLane(func(any *lane) {
		if t, ok := any.Spent[l.Step]; ok {
			any.Spent[l.Step] = tally{Visits: t.Visits}
		}
	})
	b.Pending = nil
	b.makePending(s, *l)
}

// stepToEnter returns the step to enter for a destination: the destination itself or, once its
// visits are used up, its replacement (rule 18). It returns nil if the run ends instead.
func (b *lane) stepToEnter(s *State, to string) *Node {
	for range s.Graph.Steps {
		n := s.Graph.findNode(to)
		if n == nil || !b.hasUsedVisits(n) {
			return n
		}
		text := fmt.Sprintf("%s was entered %d times, as often as max_visits allows", n.Name, n.MaxVisits)
		if n.Instead != "" {
			text += "; " + n.Instead + " takes its place"
		}
		b.addNote(s, n.Name, text)
		to = n.Instead
	}
	return nil
}

func (b *lane) hasUsedVisits(n *Node) bool {
	return n.MaxVisits > 0 && b.Spent[n.Name].Visits >= n.MaxVisits
}

// closedDestinations lists the destinations that a step cannot call because they have used up their visits.
func (b *lane) closedDestinations(s *State, n *Node) []string {
	var closed []string
	for _, to := range n.Destinations {
		if d := s.Graph.findNode(to); d != nil && b.hasUsedVisits(d) {
			closed = append(closed, to)
		}
	}
	return closed
}

// makePending makes a launch pending with its allowances. If a limit of the step or of the run has
// been reached, it ends the step or the run instead (rule 19).
func (b *lane) makePending(s *State, l Launch) {
	if s.endIfOverspent() {
		return
	}
	at := Ref{Step: l.Step, Branch: b.Path}
	cause := s.setAllowances(&l)
	switch {
	case cause != nil:
		b.traceStep(s, TraceEntry{Step: l.Step, Status: Failed, Error: cause})
		b.followFailure(s, l, at, outcome{status: Failed, failed: true}, *cause)
	case l.Used >= l.Most:
		b.traceStep(s, TraceEntry{Step: l.Step, Status: MaxIterations})
		b.rememberStep(at, false, l.statusNote(MaxIterations, nil))
		b.chooseSuccessor(s, at, outcome{status: MaxIterations})
	case l.Kind.isFork() && l.Join == nil:
		b.openFork(s, l)
	default:
		b.Pending = &l
	}
}

// setAllowances sets the allowances of a launch to the remaining limits of its step and of the run.
// It returns a failure if the step has no time or money left.
func (s *State) setAllowances(l *Launch) *Failure {
	n := s.Graph.findNode(l.Step)
	usage, seconds := s.spentOn(l.Step)
	l.Most, l.CostUSD = n.MaxIterations, 0
	if limit := s.Graph.CostUSD; limit > 0 && s.Closing == nil {
		l.CostUSD = limit - s.Usage.AtLeastUSD()
	}
	if limit, spent := n.Limits.CostUSD, usage.AtLeastUSD(); limit > 0 {
		if spent >= limit {
			return &Failure{BudgetSpent, fmt.Sprintf("%s spent %s, and its limits.cost_usd is %s", l.Step, llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4))}
		}
		if l.CostUSD == 0 || limit-spent < l.CostUSD {
			l.CostUSD = limit - spent
		}
	}
	if limit := n.Limits.Seconds; limit > 0 {
		if l.Seconds = float64(limit) - seconds; l.Seconds <= 0 {
			return &Failure{TimeOver, fmt.Sprintf("%s ran for %.0f s, and its limits.seconds is %d", l.Step, seconds, limit)}
		}
	}
	if limit := n.Limits.ModelCalls; limit > 0 {
		l.Most = min(l.Most, l.Used+l.Made+limit-int(usage.ModelCalls))
	}
	return nil
}

func (s *State) endIfOverspent() bool {
	limit, spent := s.Graph.CostUSD, s.Usage.AtLeastUSD()
	if limit == 0 || spent < limit || s.Closing != nil {
		return false
	}
	s.endAtLimit(BudgetSpent, fmt.Sprintf("the run spent %s, and limits.cost_usd is %s", llm.FormatUSD(spent, 4), llm.FormatUSD(limit, 4)))
	return true
}

func (s *State) endAtLimit(kind, reason string) {
	s.endRun(Failed, reason, nil)
	if s.Closing != nil {
		s.Closing.Limit = kind
	}
	if s.Result != nil {
		s.Result.Limit = kind
	}
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
func (b *lane) retryStep(s *State, l Launch, status Status, team string) bool {
	n, t := s.Graph.findNode(l.Step), b.Spent[l.Step]
	if t.Retries+1 >= n.Retry.Attempts || !slices.Contains(n.Retry.On, status) && !slices.Contains(n.Retry.On, Status(team)) {
		return false
	}
	if s.setAllowances(&l) != nil {
		return false // it would end at once
	}
	t.Retries++
	b.Spent[l.Step] = t
	text := fmt.Sprintf("%s is tried again, %d of %d", l.Step, t.Retries+1, n.Retry.Attempts)
	if n.Retry.Seconds > 0 {
		s.Waits++
		b.Wait = &Wait{ID: s.Waits, Step: b.place(l.Step), Seconds: min(longestWait, n.Retry.Seconds*float64(int(1)<<min(t.Retries-1, 20)))}
		text += fmt.Sprintf(", in %.0f s", b.Wait.Seconds)
	}
	b.addNote(s, l.Step, text)
	b.makePending(s, l)
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

	MaxSteps int `json:"max_steps,omitempty"` // most steps that are entered, in all branches; 0 is no limit

	// Park makes a run wait for a person when a step fails.
	Park bool `json:"park,omitempty"`

	Finally string `json:"finally,omitempty"` // the step that runs at each end; empty for none

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

	Branches []Entrance `json:"branches,omitempty"` // of a parallel step; the line of a nested pipeline
	Result   string     `json:"result,omitempty"`   // the step whose text a nested pipeline has; empty for the last one
	Items    Items      `json:"items,omitzero"`     // of a for_each
	Each     string     `json:"each,omitempty"`     // first step of each item
	AtOnce   int        `json:"at_once,omitempty"`  // most items that are open at once, at least 1

	Any           bool   `json:"any,omitempty"`             // the first branch that completes ends the step
	StopAtFailure bool   `json:"stop_at_failure,omitempty"` // the first branch or item that fails ends the step
	OnConflict    string `json:"on_conflict,omitempty"`     // the step that follows if branches changed files differently; empty fails
}

// Entrance is a branch of a parallel step: its name and its first step.
type Entrance struct {
	Name string `json:"name"`
	Step string `json:"step"`
}

// Items is the list that a for_each goes through: Count items of the definition, or those in the output of a step.
type Items struct {
	From  string `json:"from,omitempty"`
	Count int    `json:"count,omitempty"`
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

	Parallel Kind = "parallel" // branches that run at the same time
	ForEach  Kind = "for_each" // a branch for each item of a list

	Nested   Kind = "pipeline" // the line of another pipeline
	Approval Kind = "approval" // a person who approves or denies, or chooses an option
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

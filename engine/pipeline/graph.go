package pipeline

import "slices"

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

// node returns the step with the given name, or nil.
func (g *Graph) node(name string) *Node {
	i := slices.IndexFunc(g.Steps, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Steps[i]
}

package pipeline

import "slices"

// Limits of a graph, and what they are if it names none.
const (
	DefaultIterations  = 50
	DefaultTransitions = 100
	DefaultDepth       = 8
)

// Graph is what the machine needs of a pipeline's definition, which was checked
// before anything started: every name in it is that of a step.
type Graph struct {
	Start string `json:"start"`
	Steps []Node `json:"steps"`

	MaxTransitions int `json:"max_transitions"` // how often control is passed on, at most
	MaxDepth       int `json:"max_call_depth"`  // how many callers wait, at most

	// Park has a run wait for a person when a step failed.
	Park bool `json:"park,omitempty"`
}

// Node is one step of a graph.
type Node struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`

	// Destinations are what the step may jump to and call; for agents only.
	Destinations []string `json:"destinations,omitempty"`

	// Next is the static rule: the first branch that fits says where to go.
	Next []Branch `json:"next,omitempty"`

	MaxIterations int `json:"max_iterations"` // model calls, at least 1

	// History says that the step is shown the texts of those before it.
	History bool `json:"history,omitempty"`
}

// Branch leads on from a step that ended with the status When, or with any status
// if that is empty.
type Branch struct {
	When Status `json:"when,omitempty"`
	To   string `json:"to"`
}

// Kind is what carries a step out.
type Kind string

// The kinds of steps.
const (
	Agent   Kind = "agent"   // a model with tools
	Tools   Kind = "tools"   // configured tool calls, without a model
	Session Kind = "session" // a team: its decision is the step's text
)

// Status is how a step, or a whole run, ended.
type Status string

// The statuses of steps. Those of a run are the same but for CallPending.
const (
	Completed     Status = "completed"
	Cancelled     Status = "cancelled"
	Failed        Status = "error"
	MaxIterations Status = "max_iterations"
	CallPending   Status = "call_pending"
)

// node finds a step by name; nil if there is none.
func (g *Graph) node(name string) *Node {
	i := slices.IndexFunc(g.Steps, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Steps[i]
}

// leads reports whether the step may jump to and call another one.
func (n *Node) leads(to string) bool { return slices.Contains(n.Destinations, to) }

// next is where the static rule leads; empty for nowhere.
func (n *Node) next(s Status) string {
	for _, b := range n.Next {
		if b.When == "" || b.When == s {
			return b.To
		}
	}
	return ""
}

package step

// Bell is the doorbell: the signal that a running step reads at each safe point.
// It carries numbers and labels; the texts are in the store.
type Bell struct {
	Epoch     int           `json:"epoch"`             // counts the rings, from 1
	Earlier   int           `json:"earlier,omitempty"` // attempts of the team before the one that the answers belong to
	Answers   []BellAnswer  `json:"answers"`           // the latest of every agent, by anonymous number
	Messages  []BellMessage `json:"messages,omitempty"`
	Directive Directive     `json:"directive,omitempty"`
}

// BellAnswer refers to an agent's answer.
type BellAnswer struct {
	Agent  string `json:"agent"`
	Number int    `json:"number"` // the agent's anonymous number
	Label  string `json:"label"`
	Step   int    `json:"step"`
}

// BellMessage refers to a human message, stored under MessageKey.
type BellMessage struct {
	Number int    `json:"number"`
	Agent  string `json:"agent,omitempty"` // the recipient; empty for everybody
}

// Directive is a request to all running steps.
type Directive string

// The directives; the empty one is to carry on.
const (
	WrapUp  Directive = "wrap_up" // the session's time is nearly over
	Pausing Directive = "pause"   // the steps are suspended
	Ending  Directive = "end"     // the decision is made; running steps are cancelled
)

package pipeline

import "conclave/engine/llm"

// View is a run at a glance: what the state query answers.
type View struct {
	Step        string    `json:"step"`  // that runs, or is next; empty for none
	Stack       []string  `json:"stack"` // callers that wait, the innermost last
	Trace       []Segment `json:"trace"`
	Transitions int       `json:"transitions"`
	Paused      bool      `json:"paused"`
	Parked      *string   `json:"parked"` // null, or what the run waits for
	Messages    int       `json:"messages"`
	Usage       llm.Usage `json:"usage"`
	Events      int       `json:"events"`
}

// View describes the run. It shares nothing with the state.
func (s *State) View() View {
	v := View{
		Step: s.Current(), Stack: []string{}, Trace: append([]Segment{}, s.Trace...),
		Transitions: s.Transitions, Paused: s.Paused, Messages: len(s.Messages), Usage: s.Usage, Events: s.Events,
	}
	for _, f := range s.Stack {
		v.Stack = append(v.Stack, f.Step)
	}
	if s.Parked != nil && !s.Done() {
		why := "retry or cancel: " + s.Current() + " failed, " + s.Parked.Type + ": " + s.Parked.Message
		v.Parked = &why
	}
	return v
}

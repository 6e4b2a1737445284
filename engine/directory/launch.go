package directory

import (
	"fmt"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// NothingOfferedError says that a limit leaves an agent nothing that a step could
// end with, or nothing to spend on one.
type NothingOfferedError struct {
	Agent string
	Steps int  // max_steps_per_agent, if the agent is there; else 0
	Spent bool // the budget is
}

func (e *NothingOfferedError) Error() string {
	switch {
	case e.Steps > 0:
		return fmt.Sprintf("%s has taken all the steps that it may: orchestrator.max_steps_per_agent is %d; it can be more", e.Agent, e.Steps)
	case e.Spent:
		return fmt.Sprintf("nothing is left for %s to spend: the actions in the directory have cost what orchestrator.budget allows; it can be more", e.Agent)
	}
	return fmt.Sprintf("%s can neither answer nor vote now: its answers are at max_new_answers_per_agent or max_new_answers_global, and there is none to vote for, or voting waits until everybody has answered", e.Agent)
}

// RenumberedError says that a step cannot be gone on with: what it was shown
// bears other labels now, or is gone.
type RenumberedError struct {
	Agent string
	Step  int
}

func (e *RenumberedError) Error() string {
	return fmt.Sprintf("step %d of %s cannot be gone on with: the answers that it was shown are not there any more under the labels that they had; begin a fresh one", e.Step, e.Agent)
}

// Launch is a new step of an agent, who may be new in the directory: it is shown
// the latest answer of every agent, its own included, and offered what the rules
// leave open to it, counting the answers, the steps and the costs that are on
// record. The anonymous numbers are those of With(runner). The error is an
// *artifact.NameError, *UnreadableError or *NothingOfferedError.
func (d Directory) Launch(runner string, rules coordination.Config) (coordination.Launch, error) {
	if err := artifact.CheckAgentID(runner); err != nil {
		return coordination.Launch{}, err
	}
	if problem, ok := d.unusable[runner]; ok {
		return coordination.Launch{}, &UnreadableError{Path: "agents/" + runner, Problem: problem}
	}
	s := d.With(runner).state(rules, nil)
	l, ok := s.LaunchOf(runner)
	if !ok {
		return coordination.Launch{}, d.nothing(runner, rules, s)
	}
	return l, nil
}

// nothing says which limit it is.
func (d Directory) nothing(runner string, rules coordination.Config, s *coordination.State) error {
	e := &NothingOfferedError{Agent: runner}
	a, _ := d.Agent(runner)
	switch most := rules.MaxStepsPerAgent; {
	case most > 0 && a.Finished >= most:
		e.Steps = most
	default:
		e.Spent = !s.Affords()
	}
	return e
}

// Resume is the launch of an unfinished step that is gone on with, and the agents
// that its numbers stand for: it is shown what it was shown when it began, under the
// labels of then, whoever has joined since. Where that cannot be, the error is a
// *RenumberedError; the other errors are those of Launch.
func (d Directory) Resume(runner string, u Unfinished, rules coordination.Config) (coordination.Launch, []string, error) {
	l, err := d.Launch(runner, rules)
	if err != nil {
		return l, nil, err
	}
	agents := u.Agents
	if !slices.Contains(agents, runner) { // nobody has written them down
		agents = d.With(runner).IDs()
	}
	l.After, l.Shown, l.Number = u.Step-1, nil, 1+slices.Index(agents, runner)
	var labels []string
	for i, id := range agents {
		a, _ := d.Agent(id)
		at := slices.IndexFunc(a.Answers, func(answer Answer) bool { return answer.Step == u.SeenSteps[id] })
		if at >= 0 {
			shown := coordination.Shown{Agent: id, Number: i + 1, Label: label(i+1, at+1), Step: a.Answers[at].Step}
			l.Shown, labels = append(l.Shown, shown), append(labels, shown.Label)
		}
	}
	if len(labels) != len(u.SeenSteps) || !slices.Equal(labels, u.Labels) {
		return coordination.Launch{}, nil, &RenumberedError{Agent: runner, Step: u.Step}
	}
	// A vote is open to a step by what it was shown, not by what came since.
	if len(l.Shown) == 0 {
		l.Offered = slices.DeleteFunc(l.Offered, func(a coordination.Action) bool { return a == coordination.Vote })
	}
	if len(l.Offered) == 0 {
		return coordination.Launch{}, nil, &NothingOfferedError{Agent: runner}
	}
	return l, agents, nil
}

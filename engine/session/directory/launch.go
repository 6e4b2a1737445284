package directory

import (
	"fmt"
	"slices"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// NothingOfferedError reports that a limit leaves an agent no action to end a step with, or no budget.
type NothingOfferedError struct {
	Agent string
	Steps int  // max_steps_per_agent, if it is reached
	Spent bool // the budget is spent
}

func (e *NothingOfferedError) Error() string {
	switch {
	case e.Steps > 0:
		return fmt.Sprintf("%s has taken all of its steps: orchestrator.max_steps_per_agent is %d; set a higher value", e.Agent, e.Steps)
	case e.Spent:
		return fmt.Sprintf("the budget leaves nothing for %s: the actions in the directory have used up orchestrator.budget; set a higher one", e.Agent)
	}
	return fmt.Sprintf("%s can neither answer nor vote now: its answers are at max_new_answers_per_agent or max_new_answers_global, and there is none to vote for, or voting waits until everybody has answered", e.Agent)
}

// Launch returns the launch of a new step of an agent, which may be new in the directory. The step is shown
// the latest answer of every agent, including its own, and is offered the actions that the rules allow after
// the answers, steps and usage on record. The anonymous numbers are those of With(runner). The error is an
// *artifact.NameError, *UnusableError or *NothingOfferedError.
func (d Directory) Launch(runner string, rules coordination.Config) (coordination.Launch, error) {
	if err := artifact.CheckAgentID(runner); err != nil {
		return coordination.Launch{}, err
	}
	if problem, ok := d.unusable[runner]; ok {
		return coordination.Launch{}, unreadableError("agents/"+runner, problem)
	}
	s := d.With(runner).recallState(rules, nil)
	l, ok := s.LaunchOf(runner)
	if !ok {
		e := &NothingOfferedError{Agent: runner, Spent: !s.Affords()}
		if a, _ := d.Agent(runner); rules.MaxStepsPerAgent > 0 && a.Finished >= rules.MaxStepsPerAgent {
			e.Steps = rules.MaxStepsPerAgent
		}
		return coordination.Launch{}, e
	}
	return l, nil
}

// Resume returns the launch that resumes an unfinished step, and the agents behind its numbers. The step is
// shown the same answers under the same labels as when it began. If one of them is gone, Resume fails.
func (d Directory) Resume(runner string, u Unfinished, rules coordination.Config) (coordination.Launch, []string, error) {
	l, err := d.Launch(runner, rules)
	if err != nil {
		return l, nil, err
	}
	agents := u.Agents
	if !slices.Contains(agents, runner) { // the claim does not record them
		agents = d.With(runner).IDs()
	}
	l.After, l.Shown, l.Number = u.Step-1, nil, 1+slices.Index(agents, runner)
	var labels []string
	for i, id := range agents {
		a, _ := d.Agent(id)
		at := slices.IndexFunc(a.Answers, func(answer answer) bool { return answer.Step == u.SeenSteps[id] })
		if at >= 0 {
			shown := coordination.Shown{Agent: id, Number: i + 1, Label: coordination.Label(i+1, at+1), Step: a.Answers[at].Step}
			l.Shown, labels = append(l.Shown, shown), append(labels, shown.Label)
		}
	}
	if len(labels) != len(u.SeenSteps) || !slices.Equal(labels, u.Labels) {
		return coordination.Launch{}, nil, fmt.Errorf("step %d of %s cannot be resumed: the answers that it was shown are gone or have other labels now; begin a fresh one", u.Step, runner)
	}
	// A step may vote only for answers that it was shown.
	if len(l.Shown) == 0 {
		l.Offered = slices.DeleteFunc(l.Offered, func(a coordination.Action) bool { return a == coordination.Vote })
	}
	if len(l.Offered) == 0 {
		return coordination.Launch{}, nil, &NothingOfferedError{Agent: runner}
	}
	return l, agents, nil
}

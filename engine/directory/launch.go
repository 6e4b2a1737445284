package directory

import (
	"fmt"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// NothingOfferedError says that a limit leaves an agent nothing that a step could
// end with.
type NothingOfferedError struct{ Agent string }

func (e *NothingOfferedError) Error() string {
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
// leave open to it, counting the answers that are on record. The step limit does
// not hold: whoever launches a step wants one. The anonymous numbers are those of
// With(runner). The error is an *artifact.NameError, *UnreadableError or
// *NothingOfferedError.
func (d Directory) Launch(runner string, rules coordination.Config) (coordination.Launch, error) {
	if err := artifact.CheckAgentID(runner); err != nil {
		return coordination.Launch{}, err
	}
	if problem, ok := d.unusable[runner]; ok {
		return coordination.Launch{}, &UnreadableError{Path: "agents/" + runner, Problem: problem}
	}
	l, ok := d.With(runner).state(rules, nil).LaunchOf(runner)
	if !ok {
		return coordination.Launch{}, &NothingOfferedError{Agent: runner}
	}
	return l, nil
}

// Resume is the launch of an unfinished step that is gone on with: it is shown
// what it was shown when it began. Where that cannot be, the error is a
// *RenumberedError; the other errors are those of Launch.
func (d Directory) Resume(runner string, u Unfinished, rules coordination.Config) (coordination.Launch, error) {
	l, err := d.Launch(runner, rules)
	if err != nil {
		return l, err
	}
	l.After, l.Shown = u.Step-1, nil
	var labels []string
	for _, a := range d.With(runner).Agents {
		at := slices.IndexFunc(a.Answers, func(answer Answer) bool { return answer.Step == u.SeenSteps[a.ID] })
		if at >= 0 {
			shown := coordination.Shown{Agent: a.ID, Number: a.Number, Label: a.Answers[at].Label, Step: a.Answers[at].Step}
			l.Shown, labels = append(l.Shown, shown), append(labels, shown.Label)
		}
	}
	if len(labels) != len(u.SeenSteps) || !slices.Equal(labels, u.Labels) {
		return coordination.Launch{}, &RenumberedError{Agent: runner, Step: u.Step}
	}
	// A vote is open to a step by what it was shown, not by what came since.
	if len(l.Shown) == 0 {
		l.Offered = slices.DeleteFunc(l.Offered, func(a coordination.Action) bool { return a == coordination.Vote })
	}
	if len(l.Offered) == 0 {
		return coordination.Launch{}, &NothingOfferedError{Agent: runner}
	}
	return l, nil
}

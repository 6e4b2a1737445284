package team

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var frameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// check reports why the task cannot be worked on, or would show what is not
// anonymous.
func (t Task) check() error {
	kinds := t.kinds()
	for _, kind := range t.Offered {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("offered action %q: want %s", kind, strings.Join(kinds, " or "))
		}
	}
	possible := slices.ContainsFunc(t.Offered, func(kind string) bool { return kind != KindVote || len(t.Answers) > 0 })
	switch {
	case strings.TrimSpace(t.Query) == "":
		return errors.New("the query is empty")
	case !slices.Contains([]string{Coordinate, Present, Evaluate}, t.Purpose):
		return fmt.Errorf("purpose %q: want none, %s or %s", t.Purpose, Present, Evaluate)
	case !possible:
		return fmt.Errorf("no action is possible with offered %q and %d answers", t.Offered, len(t.Answers))
	case t.Files && len(t.Tools) == 0:
		return errors.New("files are available, but no tool to work with them is named")
	case t.framed() && !frameForm.MatchString(t.Frame):
		return errors.New("the frame must be letters, digits, - and _, and not empty")
	}
	return errors.Join(t.checkSettings(), t.checkAnswers(), t.checkOutcome())
}

// framed reports whether anything may come up that stands between delimiters.
func (t Task) framed() bool {
	return len(t.Answers) > 0 || len(t.Messages) > 0 || t.Look != nil ||
		t.Verdict != nil || t.Final != nil || t.Previous != nil
}

func (t Task) checkSettings() error {
	sensitivities := []string{"", Lenient, Balanced, Strict, ChecklistGated}
	novelties := sensitivities[:4]
	switch {
	case !slices.Contains(sensitivities, t.Sensitivity):
		return fmt.Errorf("voting sensitivity %q: want %s", t.Sensitivity, strings.Join(sensitivities[1:], ", "))
	case !slices.Contains(novelties, t.Novelty):
		return fmt.Errorf("answer novelty %q: want %s", t.Novelty, strings.Join(novelties[1:], ", "))
	case !slices.Contains([]string{NoUpdates, Inject, Restart}, t.Updates.Mode):
		return fmt.Errorf("update mode %q: want none, %s or %s", t.Updates.Mode, Inject, Restart)
	case t.Updates.Mode == Inject && t.Look != nil && t.Fetch == nil:
		return errors.New("answers may arrive, but there is no way to fetch them")
	case t.Look != nil && t.Hear == nil:
		return errors.New("people may say something, but there is no way to hear it")
	}
	return nil
}

func (t Task) checkAnswers() error {
	seen := make(map[int]bool, len(t.Answers))
	for _, a := range t.Answers {
		if err := checkLabel(a.Number, a.Label); err != nil {
			return err
		}
		if seen[a.Number] {
			return fmt.Errorf("two answers of %s: only the newest is shown", a.agent())
		}
		seen[a.Number] = true
	}
	return nil
}

// checkOutcome looks at what presenters and evaluating steps are given.
func (t Task) checkOutcome() error {
	final := func(a Answer) error {
		if a.Label == a.agent()+"."+finalRevision && a.Number > 0 {
			return nil
		}
		return checkLabel(a.Number, a.Label)
	}
	switch {
	case t.Purpose == Present && t.Verdict == nil:
		return errors.New("a presenter is not told of the decision")
	case t.Purpose == Evaluate && t.Final == nil:
		return errors.New("there is no final answer to evaluate")
	}
	if t.Final != nil {
		if err := final(*t.Final); err != nil {
			return fmt.Errorf("the final answer: %w", err)
		}
	}
	if t.Verdict != nil {
		return t.checkVerdict()
	}
	return nil
}

func (t Task) checkVerdict() error {
	v := t.Verdict
	if v.Strategy != WinnerPresent && v.Strategy != Synthesize && !t.divided() {
		return fmt.Errorf("final answer strategy %q: want %s or %s", v.Strategy, WinnerPresent, Synthesize)
	}
	if v.Label != "" && !slices.ContainsFunc(t.Answers, func(a Answer) bool { return a.Label == v.Label }) {
		return fmt.Errorf("the winning answer %q is not among those shown", v.Label)
	}
	for _, s := range v.Stops {
		if s.Status != Complete && s.Status != Blocked {
			return fmt.Errorf("stop of agent%d with status %q: want %s or %s", s.Number, s.Status, Complete, Blocked)
		}
	}
	return nil
}

package team

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The actions of a team member: the names of the workflow tools, the values of
// Task.Offered and the kinds of a loop.Action.
const (
	KindNewAnswer = "new_answer"
	KindVote      = "vote"
)

// Lenient is the voting sensitivity of this version, and the default.
const Lenient = "lenient"

// Task is everything a team member's step is made from.
type Task struct {
	Query string

	// SystemMessage is the agent's own configured one, possibly empty.
	SystemMessage string

	// Criteria guide the agent's judgement; there may be none.
	Criteria []Criterion

	// Answers are shown in the order given: at most one of each agent, the
	// agent's own included and not marked.
	Answers []Answer

	// Offered are the actions open to the step, KindNewAnswer and KindVote; never
	// empty. A vote is only given while there are Answers.
	Offered []string

	// Tools are the names of the ordinary tools that are offered beside the
	// rules' own. A call of any other tool is rejected.
	Tools []string

	// Revote says that everyone's vote was fresh and the votes were split.
	Revote bool

	// Files says that the agent has a workspace and file tools, with the files of
	// the answers at peers/agent<N>/.
	Files bool

	// Frame is a random delimiter made for this step, of letters, digits, "-" and
	// "_". Whoever wrote the answers cannot have known it.
	Frame string

	// Sensitivity is the voting sensitivity; empty means Lenient.
	Sensitivity string
}

// Criterion is one evaluation criterion. Only Text is required.
type Criterion struct {
	Text         string
	Category     string
	VerifyBy     string
	AntiPatterns []string
}

// Answer is one answer as it is shown.
type Answer struct {
	Number int    // the agent's anonymous number, from 1
	Label  string // agent<Number>.<revision>
	Text   string
	Files  int // how many files its workspace has
}

func (a Answer) agent() string { return fmt.Sprintf("agent%d", a.Number) }

func (t Task) canAnswer() bool { return slices.Contains(t.Offered, KindNewAnswer) }

// canVote holds back a vote that would have nothing to choose from.
func (t Task) canVote() bool { return slices.Contains(t.Offered, KindVote) && len(t.Answers) > 0 }

var (
	frameForm    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	revisionForm = regexp.MustCompile(`^[1-9][0-9]*$`)
)

func (t Task) check() error {
	for _, kind := range t.Offered {
		if kind != KindNewAnswer && kind != KindVote {
			return fmt.Errorf("offered action %q: want %s or %s", kind, KindNewAnswer, KindVote)
		}
	}
	switch {
	case strings.TrimSpace(t.Query) == "":
		return errors.New("the query is empty")
	case !t.canAnswer() && !t.canVote():
		return fmt.Errorf("no action is possible with offered %q and %d answers", t.Offered, len(t.Answers))
	case t.Sensitivity != "" && t.Sensitivity != Lenient:
		return fmt.Errorf("voting sensitivity %q is not available in this version: use %s", t.Sensitivity, Lenient)
	case t.Files && len(t.Tools) == 0:
		return errors.New("files are available, but the names of the file tools are not given")
	case len(t.Answers) > 0 && !frameForm.MatchString(t.Frame):
		return errors.New("the frame must be letters, digits, - and _, and not empty")
	}
	return t.checkAnswers()
}

// checkAnswers keeps everything but anonymous labels out of prompts and enums.
func (t Task) checkAnswers() error {
	seen := make(map[int]bool, len(t.Answers))
	for _, a := range t.Answers {
		revision, ok := strings.CutPrefix(a.Label, a.agent()+".")
		switch {
		case a.Number < 1 || !ok || !revisionForm.MatchString(revision):
			return fmt.Errorf("answer of number %d has label %q: want agent<number>.<revision>", a.Number, a.Label)
		case seen[a.Number]:
			return fmt.Errorf("two answers of %s: only the newest is shown", a.agent())
		}
		seen[a.Number] = true
	}
	return nil
}

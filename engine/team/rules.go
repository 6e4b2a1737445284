package team

import (
	"cmp"
	"context"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/checklist"
)

// Rules are the rules of one team member's step: what is known of it, folded
// from its journal, and a task.
type Rules struct {
	task  Task
	known known

	// texts are answers by whose labels a note can be understood: those of the
	// task and those fetched. They are no part of what is known.
	texts []Answer
}

var _ loop.Rules = (*Rules)(nil)

// New returns the rules of a step on task. Opening says whether task can be
// worked on.
func New(task Task) *Rules {
	return &Rules{task: task, known: opened(task), texts: slices.Clone(task.Answers)}
}

// Updates brings what is new at a safe point: answers of peers, as far as the
// launch and the time left allow, what people said, and, once each, that time
// and budget are nearly used. Its error ends the step: a loop.EndedError to
// begin again or because the allowance is spent, a loop.TimeOverError when time
// is over and the agent does not come to an end.
func (r *Rules) Updates(ctx context.Context) (loop.Update, error) {
	if err := cmp.Or(r.denied(), r.spent()); err != nil {
		return loop.Update{}, err
	}
	news, err := r.look(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	admitted := admit(r.terms(), r.standing(), news)
	if admitted.Restart {
		return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
	}
	u, err := r.gather(ctx, admitted)
	if err != nil {
		return loop.Update{}, err
	}
	if !r.known.guided && (news.WrapUp || r.softDue()) {
		u.note.WrapUp, u.Ending = true, news.WrapUp
	}
	u.note.Spending = r.spending()
	return r.tell(u)
}

// Confirm looks once more before an action counts, once per step: what may be
// told turns the action down. A step whose time or budget is over has no other
// chance, and one that may not be told of answers acts on what it has seen.
func (r *Rules) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	if r.known.confirmed || r.timeOver() || r.spent() != nil {
		return loop.Update{}, nil
	}
	news, err := r.look(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	u, err := r.gather(ctx, admit(r.terms(), r.standing(), news))
	if err != nil {
		return loop.Update{}, err
	}
	if len(u.Answers) == 0 && len(u.Said) == 0 {
		return loop.Update{}, nil
	}
	u.note.Confirmed, u.Again = true, a.Kind
	return r.tell(u)
}

// Witnessed returns what the agent was shown, at the opening and by updates:
// the newest answer step of each agent by its number, and the number of the
// last message that it heard. The final answer that an evaluating step judges
// counts, the answer of an earlier attempt does not.
func (r *Rules) Witnessed() (seen map[int]int, heard int) {
	seen = make(map[int]int)
	if r.task.Final != nil && r.task.Purpose == Evaluate {
		seen[r.task.Final.Number] = r.task.Final.Step
	}
	for _, a := range r.known.answers {
		seen[a.Number] = max(seen[a.Number], a.Step)
	}
	for number := range r.known.heard {
		heard = max(heard, number)
	}
	return seen, heard
}

// Offer returns the tools that the rules answer: the workflow tools open to the
// step, and those of its checklist.
func (r *Rules) Offer() []llm.Tool {
	var tools []llm.Tool
	for _, kind := range r.open() {
		tools = append(tools, r.workflowTool(kind))
	}
	if r.hasChecklist() && !r.timeOver() {
		tools = append(tools, checklist.Tools(*r.task.Checklist)...)
	}
	return tools
}

package team

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/plan"
)

// rules are the loop.Rules of one agent's step: its task and the memory, which is the fold of
// its journal.
type rules struct {
	task   task
	memory memory

	// texts are the answers, of the task or fetched, to which restored notes refer. They do
	// not affect rulings.
	texts []answer
}

var _ loop.Rules = (*rules)(nil)

// newRules returns the rules of a step with task t. Opening reports an invalid task.
func newRules(t task) *rules {
	return &rules{task: t, memory: newMemory(t), texts: slices.Clone(t.Answers)}
}

// Updates returns the news at a safe point: peers' answers, as far as the launch and the
// remaining time allow, human messages and, once each, the warnings that time and budget are
// running out. It ends the step with a loop.EndedError if the step restarts or its allowance
// is spent, and with a loop.TimeOverError after maxDenials.
func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if err := cmp.Or(r.denied(), r.spent()); err != nil {
		return loop.Update{}, err
	}
	n, err := r.news(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	admitted := r.admit(n)
	if admitted.Restart {
		return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
	}
	u, err := r.gather(ctx, admitted)
	if err != nil {
		return loop.Update{}, err
	}
	if !r.memory.guided && (n.WrapUp || r.softDue()) {
		u.note.WrapUp, u.Ending = true, n.WrapUp
	}
	u.note.Spending = r.spending()
	return r.write(u)
}

// Confirm reads the news before an action counts, and then compares a new answer with those
// that were shown.
func (r *rules) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	u, err := r.confirmNews(ctx, a)
	if err != nil || len(u.Messages) > 0 {
		return u, err
	}
	u.Ruling, err = r.review(ctx, a)
	return u, err
}

// confirmNews withdraws the action, at most once per step, if it admits any news. A step that
// is out of time or money reads no news.
func (r *rules) confirmNews(ctx context.Context, a loop.Action) (loop.Update, error) {
	if r.memory.confirmed || r.timeOver() || r.spent() != nil {
		return loop.Update{}, nil
	}
	n, err := r.news(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	u, err := r.gather(ctx, r.admit(n))
	if err != nil {
		return loop.Update{}, err
	}
	if len(u.Answers) == 0 && len(u.Said) == 0 {
		return loop.Update{}, nil
	}
	u.note.Confirmed, u.Again = true, a.Kind
	return r.write(u)
}

// witnessed returns the material that the agent was shown: the step of each agent's newest
// answer, by number, and the number of the last message. It includes the final answer that an
// evaluating step judges, and excludes the answer of an earlier attempt.
func (r *rules) witnessed() (seen map[int]int, heard int) {
	seen = make(map[int]int)
	if r.task.Final != nil && r.task.Purpose == coordination.Evaluate {
		seen[r.task.Final.Number] = r.task.Final.Step
	}
	for _, a := range r.memory.answers {
		seen[a.Number] = max(seen[a.Number], a.Step)
	}
	for number := range r.memory.messages {
		heard = max(heard, number)
	}
	return seen, heard
}

// Offer returns the workflow tools and the tools of the checklist, sorted by name. A plain step
// has none.
func (r *rules) Offer() []llm.Tool {
	if r.textOnly() {
		return nil
	}
	var tools []llm.Tool
	for _, action := range r.offered() {
		tools = append(tools, r.workflowTool(action))
	}
	if r.task.scored() && !r.timeOver() {
		tools = append(tools, r.task.Checklist.Tools()...)
	}
	if (len(r.task.Plan) > 0 || r.task.scored()) && !r.timeOver() {
		tools = append(tools, plan.Tools()...)
	}
	slices.SortFunc(tools, func(a, b llm.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools
}

// offered returns the actions whose tools the model sees. All agents that are shown the same
// answers see the same actions, so that their prompts begin with the same bytes; Judge
// refuses calls of closed actions. An agent sees only the open actions if it works alone, has
// called a closed tool, or has repeated an answer.
func (r *rules) offered() []coordination.Action {
	if r.task.Alone || r.memory.strayed || r.memory.repeated {
		return r.open()
	}
	return slices.DeleteFunc(r.task.actions(), func(a coordination.Action) bool {
		return a == coordination.Vote && len(r.memory.answers) == 0
	})
}

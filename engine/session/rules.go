package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/quality"
)

// rules are the loop.Rules of one agent's step: its task and the memory, which is the fold of its journal.
type rules struct {
	task   task
	memory memory

	// texts are the answers, of the task or fetched, to which restored notes refer. They do
	// not affect rulings.
	texts []answer
}

var _ loop.Rules = (*rules)(nil)

func newRules(t task) *rules {
	return &rules{task: t, memory: newMemory(t), texts: slices.Clone(t.Answers)}
}

// Updates returns the news at a safe point: peers' answers, as far as the launch and the
// remaining time allow, human messages and, once each, the warnings that time and budget are
// running out. It ends the step with a loop.EndedError if the step restarts or its allowance
// is spent, and with a loop.TimeOverError after maxDenials.
func (r *rules) Updates(ctx context.Context) (loop.Update, error) {
	if err := cmp.Or(r.memory.denialsError(), r.memory.allowanceError(r.task.Allowance)); err != nil {
		return loop.Update{}, err
	}
	n, err := r.readNews(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	admitted := r.admitNews(n)
	if admitted.Restart {
		return loop.Update{}, &loop.EndedError{Why: loop.EndRestart}
	}
	u, err := r.gatherUpdate(ctx, admitted)
	if err != nil {
		return loop.Update{}, err
	}
	if !r.memory.guided && (n.WrapUp || r.memory.softDue(r.task.limits)) {
		u.note.WrapUp, u.Ending = true, n.WrapUp
	}
	u.note.Spending = r.memory.mustWarn(r.task.Allowance)
	return r.writeUpdate(u)
}

// Confirm reads the news before an action counts, and then compares a new answer with those that were shown.
func (r *rules) Confirm(ctx context.Context, a loop.Action) (loop.Update, error) {
	u, err := r.confirmNews(ctx, a)
	if err != nil || len(u.Messages) > 0 {
		return u, err
	}
	u.Ruling, err = r.reviewAction(ctx, a)
	return u, err
}

// confirmNews withdraws the action, at most once per step, if it admits any news. A step that
// is out of time or money reads no news.
func (r *rules) confirmNews(ctx context.Context, a loop.Action) (loop.Update, error) {
	if r.memory.confirmed || r.memory.timeOver(r.task.limits) || r.memory.allowanceError(r.task.Allowance) != nil {
		return loop.Update{}, nil
	}
	n, err := r.readNews(ctx)
	if err != nil {
		return loop.Update{}, err
	}
	u, err := r.gatherUpdate(ctx, r.admitNews(n))
	if err != nil {
		return loop.Update{}, err
	}
	if len(u.Answers) == 0 && len(u.Said) == 0 {
		return loop.Update{}, nil
	}
	u.note.Confirmed, u.Again = true, a.Kind
	return r.writeUpdate(u)
}

// witnessedSteps returns the material that the agent was shown: the step of each agent's newest
// answer, by number, and the number of the last message. It includes the final answer that an
// evaluating step judges, and excludes the answer of an earlier attempt.
func (r *rules) witnessedSteps() (seen map[int]int, heard int) {
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

// Offer returns the workflow tools and the tools of the checklist, sorted by name. A plain step has none.
func (r *rules) Offer() []llm.Tool {
	if r.textOnly() {
		return nil
	}
	var tools []llm.Tool
	for _, action := range r.offeredActions() {
		tools = append(tools, r.workflowTool(action))
	}
	if r.task.hasChecklist() && !r.memory.timeOver(r.task.limits) {
		tools = append(tools, r.task.Checklist.Tools()...)
	}
	if (len(r.task.Plan) > 0 || r.task.hasChecklist()) && !r.memory.timeOver(r.task.limits) {
		tools = append(tools, quality.PlanTools()...)
	}
	slices.SortFunc(tools, func(a, b llm.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools
}

// offeredActions returns the actions whose tools the model sees. All agents that are shown the same
// answers see the same actions, so that their prompts begin with the same bytes; Judge
// refuses calls of closed actions. An agent sees only the open actions if it works alone, has
// called a closed tool, or has repeated an answer.
func (r *rules) offeredActions() []coordination.Action {
	if r.task.Alone || r.memory.strayed || r.memory.repeated {
		return r.openActions()
	}
	return slices.DeleteFunc(r.task.stepActions(), func(a coordination.Action) bool {
		return a == coordination.Vote && len(r.memory.answers) == 0
	})
}

// maxDenials is the number of denied calls, after a step's time is over, at which the step ends.
const maxDenials = 10

func (l limits) hasLimit() bool { return l.Soft > 0 || l.Grace > 0 }

// denyCalls refuses calls that do not end the step. Denials do not count as rejections; they have
// their own limit.
func (r *rules) denyCalls(all []llm.ToolCall) loop.Ruling {
	ruling := loop.Ruling{Results: make(map[string]string)}
	denied := 0
	for _, call := range all {
		if !r.task.endsStep(call) {
			denied++
			ruling.Results[call.ID] = fmt.Sprintf("Denied (%d of %d): your time for this turn is over. Only %s can be called now; submit the best you have.", r.memory.denied+denied, maxDenials, r.endingCalls())
		}
	}
	if denied > 0 {
		ruling.Note = marshal(note{Denied: denied})
	}
	return ruling
}

// warnShare is the share of the allowance at which the agent is warned.
const warnShare = 0.8

// scored is one input of the step's checklist: the labels that an update showed, or a result
// that the model was shown.
type scored struct {
	labels []string
	result *quality.Result
}

// hasChecklist reports whether a checklist can score the answers shown. This is not the case in a
// step with a plan.
func (t task) hasChecklist() bool {
	return t.Checklist != nil && t.Purpose == coordination.Coordinate && len(t.Plan) == 0 && t.Checklist.Open()
}

// isGated reports whether the step has a checklist. It does if the agent can choose between a
// new answer and the end.
func (t task) isGated() bool { return t.hasChecklist() && t.offersAction(coordination.NewAnswer) }

// checklistState computes the state of the step's checklist, or nil if it has none.
func (r *rules) checklistState() *quality.State {
	if !r.task.isGated() {
		return nil
	}
	state := quality.New(*r.task.Checklist)
	for _, s := range r.memory.scored {
		if s.result != nil {
			state.Learn(*s.result)
		} else {
			state.Injected(s.labels)
		}
	}
	return state
}

func (t task) mayPlan() bool { return len(t.Plan) > 0 || t.isGated() }

func (t task) isScoringCall(call llm.ToolCall) bool {
	return t.isGated() && t.Checklist.Offers(call.Name) || t.mayPlan() && quality.OffersPlanTool(call.Name)
}

// answerScoring answers the calls of the checklist and of the plan, and records their results in the note.
func (r *rules) answerScoring(all []llm.ToolCall) loop.Ruling {
	ruling := loop.Ruling{Results: make(map[string]string)}
	var n note
	if state := r.checklistState(); state != nil {
		texts, results, proposal := state.Evaluate(all)
		maps.Copy(ruling.Results, texts)
		n.Checklist = results
		if proposal != nil {
			n.Proposed = quality.NewPlan(proposal.Tasks, proposal.Preserve, r.task.Files)
		}
	}
	if r.task.mayPlan() {
		texts, updates := r.planState(n.Proposed).Evaluate(all)
		maps.Copy(ruling.Results, texts)
		n.Plan = updates
	}
	if len(n.Checklist)+len(n.Proposed)+len(n.Plan) > 0 {
		ruling.Note = marshal(n)
	}
	return ruling
}

// planState returns the state of the step's plan, which a proposal in the same reply replaces.
func (r *rules) planState(proposed []quality.PlanTask) *quality.PlanState {
	if proposed != nil {
		return quality.BeginPlan(proposed)
	}
	tasks := r.task.Plan
	if r.memory.proposed != nil {
		tasks = r.memory.proposed
	}
	state := quality.BeginPlan(tasks)
	for _, u := range r.memory.planned {
		state.Learn(u)
	}
	return state
}

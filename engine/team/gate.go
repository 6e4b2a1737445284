package team

import (
	"maps"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/checklist"
	"conclave/engine/team/plan"
)

// scored is one input of the step's checklist: the labels that an update showed, or a result
// that the model was shown.
type scored struct {
	labels []string
	result *checklist.Result
}

// scored reports whether a checklist can score the answers shown. This is not the case in a
// step with a plan.
func (t task) scored() bool {
	return t.Checklist != nil && t.Purpose == coordination.Coordinate && len(t.Plan) == 0 && t.Checklist.Open()
}

// gated reports whether the step has a checklist. It does if the agent can choose between a
// new answer and the end.
func (t task) gated() bool { return t.scored() && t.offers(coordination.NewAnswer) }

// checklist computes the state of the step's checklist, or nil if it has none.
func (r *rules) checklist() *checklist.State {
	if !r.task.gated() {
		return nil
	}
	state := checklist.New(*r.task.Checklist)
	for _, s := range r.memory.scored {
		if s.result != nil {
			state.Learn(*s.result)
		} else {
			state.Injected(s.labels)
		}
	}
	return state
}

// planned reports whether the step has a plan, or may get one from its checklist.
func (t task) planned() bool { return len(t.Plan) > 0 || t.gated() }

// scores reports whether the call is to a tool of the checklist or of the plan.
func (r *rules) scores(call llm.ToolCall) bool {
	return r.task.gated() && r.task.Checklist.Offers(call.Name) || r.task.planned() && plan.Offers(call.Name)
}

// score answers the calls of the checklist and of the plan, and records their results in the
// note.
func (r *rules) score(all []llm.ToolCall) loop.Ruling {
	ruling := loop.Ruling{Results: make(map[string]string)}
	var n note
	if state := r.checklist(); state != nil {
		texts, results, proposal := state.Evaluate(all)
		maps.Copy(ruling.Results, texts)
		n.Checklist = results
		if proposal != nil {
			n.Proposed = plan.New(proposal.Tasks, proposal.Preserve, r.task.Files)
		}
	}
	if r.task.planned() {
		texts, updates := r.plan(n.Proposed).Evaluate(all)
		maps.Copy(ruling.Results, texts)
		n.Plan = updates
	}
	if len(n.Checklist)+len(n.Proposed)+len(n.Plan) > 0 {
		ruling.Note = marshal(n)
	}
	return ruling
}

// plan computes the state of the step's plan. A proposal in the same reply replaces the plan.
func (r *rules) plan(proposed []plan.Task) *plan.State {
	if proposed != nil {
		return plan.Begin(proposed)
	}
	tasks := r.task.Plan
	if r.memory.proposed != nil {
		tasks = r.memory.proposed
	}
	state := plan.Begin(tasks)
	for _, u := range r.memory.planned {
		state.Learn(u)
	}
	return state
}

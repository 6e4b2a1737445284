package team

import (
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/team/checklist"
)

// scored is one thing that the step's checklist is folded from: labels that an
// update showed, or a result that the model was told.
type scored struct {
	labels []string
	result *checklist.Result
}

// gated reports whether a step of this task has a checklist. It is advice for
// choosing between an answer and its end, so a step without that choice has none.
func (t Task) gated() bool {
	choice := t.Purpose == Coordinate && t.offers(KindNewAnswer)
	return t.Checklist != nil && choice && t.Checklist.Open()
}

func (r *Rules) hasChecklist() bool { return r.task.gated() }

// checklist is how far the step's checklist is; nil without one.
func (r *Rules) checklist() *checklist.State {
	if !r.hasChecklist() {
		return nil
	}
	state := checklist.New(*r.task.Checklist)
	for _, s := range r.known.scored {
		if s.result != nil {
			state.Learn(*s.result)
		} else {
			state.Injected(s.labels)
		}
	}
	return state
}

// checked reports whether a checklist was accepted in the step.
func (r *Rules) checked() bool {
	state := r.checklist()
	return state != nil && state.Submitted()
}

// checklistCall reports whether the call is one of the checklist's.
func (r *Rules) checklistCall(call llm.ToolCall) bool {
	names := []string{checklist.SubmitChecklist, checklist.ProposeImprovements}
	return r.hasChecklist() && slices.Contains(names, call.Name)
}

// score answers the calls of the checklist and remembers its results.
func (r *Rules) score(all []llm.ToolCall) loop.Ruling {
	v := loop.Ruling{Told: make(map[string]string)}
	state := r.checklist()
	if state == nil {
		return v
	}
	v.Told = state.Evaluate(all)
	var n note
	for _, call := range all {
		if call.Name != checklist.SubmitChecklist {
			continue
		}
		if result, ok := checklist.Read(v.Told[call.ID]); ok {
			n.Checklist = append(n.Checklist, result)
		}
	}
	if len(n.Checklist) > 0 {
		v.Note = marshal(n)
	}
	return v
}

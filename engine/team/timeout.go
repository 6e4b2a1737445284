package team

import (
	"fmt"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// MaxDenials is how many calls are denied to a step whose time is over, before
// it is ended.
const MaxDenials = 10

// softDue reports whether the step has worked for as long as it should.
func (r *Rules) softDue() bool {
	return r.task.Soft > 0 && r.known.worked >= r.task.Soft
}

// timeOver reports whether only the terminal calls are left: the grace has been
// worked through since the step was told to come to an end. Where no times are
// given there is no such limit.
func (r *Rules) timeOver() bool {
	return r.task.limited() && r.known.guided && r.known.worked >= r.known.guidedAt+r.task.Grace
}

// limited reports whether a step of this task has a hard limit at all.
func (t Task) limited() bool { return t.Soft > 0 || t.Grace > 0 }

// deny refuses the calls that do not end the step. It is no rejection: the step
// has an allowance of denials of its own.
func (r *Rules) deny(all []llm.ToolCall) loop.Ruling {
	v := loop.Ruling{Told: make(map[string]string)}
	denied := r.known.denied
	kinds := r.task.kinds()
	for _, call := range all {
		if !slices.Contains(kinds, call.Name) {
			denied++
			v.Told[call.ID] = fmt.Sprintf("Denied (%d of %d): your time for this turn is over. Only %s can be called now; submit the best you have.", denied, MaxDenials, r.ways())
		}
	}
	if denied > r.known.denied {
		v.Note = marshal(note{Denied: denied - r.known.denied})
	}
	return v
}

// denied ends a step that was denied too much.
func (r *Rules) denied() error {
	if r.known.denied < MaxDenials {
		return nil
	}
	return &loop.TimeOverError{Denials: r.known.denied}
}

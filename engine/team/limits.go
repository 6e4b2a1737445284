package team

import (
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxDenials is the number of denied calls, after a step's time is over, that ends
// the step.
const maxDenials = 10

// softDue reports whether the step has reached its soft limit.
func (r *rules) softDue() bool {
	return r.task.Soft > 0 && r.memory.worked >= r.task.Soft
}

// timeOver reports whether only calls that end the step are left: the grace after
// the request to finish is used up.
func (r *rules) timeOver() bool {
	return r.task.timed() && r.memory.guided && r.memory.worked >= r.memory.guidedAt+r.task.Grace
}

// timed reports whether the step has a hard limit.
func (l limits) timed() bool { return l.Soft > 0 || l.Grace > 0 }

// deny refuses calls that do not end the step. Denials are not rejections: they have
// a limit of their own.
func (r *rules) deny(all []llm.ToolCall) loop.Ruling {
	ruling := loop.Ruling{Results: make(map[string]string)}
	denied := 0
	for _, call := range all {
		if !r.task.ends(call) {
			denied++
			ruling.Results[call.ID] = fmt.Sprintf("Denied (%d of %d): your time for this turn is over. Only %s can be called now; submit the best you have.", r.memory.denied+denied, maxDenials, r.ways())
		}
	}
	if denied > 0 {
		ruling.Note = marshal(note{Denied: denied})
	}
	return ruling
}

// denied ends a step after maxDenials.
func (r *rules) denied() error {
	if r.memory.denied < maxDenials {
		return nil
	}
	return &loop.TimeOverError{Denials: r.memory.denied}
}

// warnShare is the share of the allowance at which the agent is warned.
const warnShare = 0.8

// usedShare returns the used share of the allowance; 0 without one. Calls of unknown cost
// count as free.
func (r *rules) usedShare() float64 {
	limit, used, share := r.task.Allowance, r.memory.usage, 0.0
	if limit.Tokens > 0 {
		share = (float64(used.InputTokens) + float64(used.OutputTokens)) / float64(limit.Tokens)
	}
	if limit.USD > 0 {
		share = max(share, used.AtLeastUSD()/limit.USD)
	}
	return share
}

// spent ends a step before a model call that exceeds the allowance.
func (r *rules) spent() error {
	if r.usedShare() < 1 {
		return nil
	}
	return &loop.EndedError{Why: loop.EndAllowance}
}

// spending reports whether the warning about the budget is due, once.
func (r *rules) spending() bool { return !r.memory.warned && r.usedShare() >= warnShare }

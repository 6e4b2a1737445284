package team

import (
	"fmt"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxDenials is the number of denied calls, after a step's time is over, at which the step
// ends.
const maxDenials = 10

// softDue reports whether the step has reached its soft limit.
func (r *rules) softDue() bool {
	return r.task.Soft > 0 && r.memory.worked >= r.task.Soft
}

// timeOver reports whether only calls that end the step remain open, because the grace after
// the request to finish is over.
func (r *rules) timeOver() bool {
	return r.task.timed() && r.memory.guided && r.memory.worked >= r.memory.guidedAt+r.task.Grace
}

// timed reports whether the step has a hard limit.
func (l limits) timed() bool { return l.Soft > 0 || l.Grace > 0 }

// deny refuses calls that do not end the step. Denials do not count as rejections; they have
// their own limit.
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

// denied returns the error that ends a step after maxDenials.
func (r *rules) denied() error {
	if r.memory.denied < maxDenials {
		return nil
	}
	return &loop.TimeOverError{Denials: r.memory.denied}
}

// warnShare is the share of the allowance at which the agent is warned.
const warnShare = 0.8

// usedShare returns the used share of the allowance, or 0 if there is no allowance. Calls of
// unknown cost count as free.
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

// spent returns the error that ends a step before a model call if the allowance is used up.
func (r *rules) spent() error {
	if r.usedShare() < 1 {
		return nil
	}
	return &loop.EndedError{Why: loop.EndAllowance}
}

// spending reports whether to warn the agent about its budget, which happens once.
func (r *rules) spending() bool { return !r.memory.warned && r.usedShare() >= warnShare }

package team

import (
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// nearly is the share of the allowance at which the step is told.
const nearly = 0.8

// used is the share of the allowance that u has used, 0 without one. Calls of
// unknown cost count as nothing.
func (a Allowance) used(u llm.Usage) float64 {
	share := 0.0
	if a.Tokens > 0 {
		share = (float64(u.InputTokens) + float64(u.OutputTokens)) / float64(a.Tokens)
	}
	if a.USD > 0 {
		share = max(share, u.AtLeastUSD()/a.USD)
	}
	return share
}

// spent ends a step before the model call that it cannot pay for.
func (r *Rules) spent() error {
	if r.task.Allowance.used(r.known.usage) < 1 {
		return nil
	}
	return &loop.EndedError{Why: loop.EndAllowance}
}

// spending reports whether the step is to be told, once, that the budget is
// nearly used.
func (r *Rules) spending() bool {
	return !r.known.warned && r.task.Allowance.used(r.known.usage) >= nearly
}

package step

import (
	"context"
	"errors"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/engine/directory"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The types of errors in last_action.json that a step under Temporal does not have.
const (
	stepInterrupted = "Interrupted"
	stepTimeout     = "Timeout"
	budgetSpent     = "BudgetSpent"
	nothingOffered  = "NothingOffered"
)

// stepEnd is how a step ended without an action.
type stepEnd struct {
	code  int
	kind  string // the error's type in last_action.json
	final bool   // going on with it would end the same way
}

// endOf classifies the error of a step. What was wrong with the directory before
// the step began is a usage error.
func endOf(ctx context.Context, err error) stepEnd {
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return stepEnd{code: hall.ExitInterrupted, kind: stepInterrupted}
	case errors.Is(err, errStepTime):
		return stepEnd{code: hall.ExitTimeout, kind: stepTimeout}
	case is[*directory.UnreadableError](err), is[*directory.UnwritableError](err), is[*directory.ObstructedError](err):
		return stepEnd{code: hall.ExitUsage}
	case is[*directory.NothingOfferedError](err):
		return stepEnd{code: hall.ExitNoAnswer, kind: nothingOffered, final: true}
	case activities.Lacks(err, activities.ToolsUnavailable):
		return stepEnd{code: hall.ExitNoAnswer, kind: activities.ToolsUnavailable}
	}
	if ended, ok := errors.AsType[*loop.EndedError](err); ok && ended.Why == loop.EndAllowance {
		return stepEnd{code: hall.ExitNoAnswer, kind: budgetSpent}
	}
	class, ok := step.Classify(err)
	if !ok {
		return stepEnd{code: hall.ExitNoAnswer, kind: activities.Internal}
	}
	end := stepEnd{code: hall.ExitNoAnswer, kind: class.Type, final: class.Final}
	if class.Type == step.TimeOver {
		end.code = hall.ExitTimeout
	}
	if model, ok := errors.AsType[*llm.Error](err); ok {
		// A person may mend the key or the address before the next launch.
		end.final = model.Kind == llm.ContextTooLong || model.Kind == llm.ContentPolicy
	}
	return end
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

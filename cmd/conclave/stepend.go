package main

import (
	"context"
	"errors"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/directory"
	"conclave/engine/llm"
	"conclave/engine/loop"
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
	var (
		unreadable *directory.UnreadableError
		unwritable *directory.UnwritableError
		obstructed *directory.ObstructedError
		spent      *loop.EndedError
		nothing    *directory.NothingOfferedError
		rejected   *loop.RejectedError
		calls      *loop.ModelCallsError
		over       *loop.TimeOverError
		model      *llm.Error
		limit      *artifact.LimitError
		name       *artifact.NameError
		tools      *activities.ToolsUnavailableError
	)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return stepEnd{code: exitInterrupted, kind: stepInterrupted}
	case errors.Is(err, errStepTime):
		return stepEnd{code: exitTimeout, kind: stepTimeout}
	case errors.As(err, &over):
		return stepEnd{code: exitTimeout, kind: activities.TimeOver, final: true}
	case errors.As(err, &unreadable), errors.As(err, &unwritable), errors.As(err, &obstructed):
		return stepEnd{code: exitUsage}
	case errors.As(err, &spent) && spent.Why == loop.EndAllowance:
		return stepEnd{code: exitNoAnswer, kind: budgetSpent}
	case errors.As(err, &nothing):
		return stepEnd{code: exitNoAnswer, kind: nothingOffered, final: true}
	case errors.As(err, &rejected), errors.As(err, &calls):
		return stepEnd{code: exitNoAnswer, kind: activities.NoAction, final: true}
	case errors.As(err, &model):
		final := model.Kind == llm.ContextTooLong || model.Kind == llm.ContentPolicy
		return stepEnd{code: exitNoAnswer, kind: string(model.Kind), final: final}
	case errors.As(err, &limit), errors.As(err, &name):
		return stepEnd{code: exitNoAnswer, kind: activities.WorkspaceInvalid, final: true}
	case errors.As(err, &tools):
		return stepEnd{code: exitNoAnswer, kind: activities.ToolsUnavailable}
	}
	return stepEnd{code: exitNoAnswer, kind: activities.Internal}
}

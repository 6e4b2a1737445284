package step

import (
	"errors"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Types of the engine's errors, as histories and last_action.json name them. Those
// of model calls are the llm.Kinds.
const (
	NoAction         = "NoAction"         // the model took no valid action
	TimeOver         = "TimeOver"         // the step's time ran out before it came to an action
	budgetSpent      = "BudgetSpent"      // the step spent its allowance before it took an action
	workspaceInvalid = "WorkspaceInvalid" // the files of an answer cannot be stored: too many, too large, or with names that no key can hold
	Fenced           = "Fenced"           // another attempt may be running
	Storage          = "Storage"          // the store failed
)

// Class is the type of an error and the way in which the step is retried after it.
type Class struct {
	Type  string
	Final bool          // a retry cannot cure it
	Free  bool          // does not count as an attempt without progress
	After time.Duration // the least delay before the next attempt; 0 for the caller's policy
}

// Classify returns the class of an engine error. It returns false for other errors.
func Classify(err error) (Class, bool) {
	if model, ok := errors.AsType[*llm.Error](err); ok {
		limited := model.Kind == llm.RateLimited
		return Class{Type: string(model.Kind), Final: !model.Retryable(), Free: limited, After: model.RetryAfter}, true
	}
	switch {
	case Wraps[*loop.NoActionError](err):
		return Class{Type: NoAction, Final: true}, true
	case Wraps[*loop.TimeOverError](err):
		return Class{Type: TimeOver, Final: true}, true
	case Wraps[*loop.OverspentError](err):
		return Class{Type: budgetSpent, Final: true}, true
	case Wraps[*artifact.LimitError](err), Wraps[*artifact.NameError](err):
		return Class{Type: workspaceInvalid, Final: true}, true
	case errors.Is(err, errOvertaken):
		return Class{Type: Fenced, Free: true}, true
	case Wraps[*UnwrittenError](err):
		return Class{Type: Storage, Free: true}, true
	}
	return Class{}, false
}

// Wraps reports whether the chain of err has an error of type E.
func Wraps[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/step"
)

// noProgressError says that attempts of a step died without a word.
type noProgressError struct{ attempts int }

func (e *noProgressError) Error() string {
	return fmt.Sprintf("%d attempts died without progress", e.attempts)
}

// Delays before a retry that has to wait for somebody.
const (
	lackDelay = 10 * time.Second // until a better equipped worker may have taken the step
	stopDelay = time.Second      // until another worker is up
)

// classify returns the type of an error and how it is retried.
func classify(err error) step.Class {
	if carried, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return step.Class{Type: carried.Type(), Final: carried.NonRetryable()}
	}
	if class, ok := step.Classify(err); ok {
		return class
	}
	if lack, ok := errors.AsType[*activities.LackError](err); ok {
		if lack.Type == activities.ToolsUnavailable {
			return step.Class{Type: lack.Type}
		}
		return step.Class{Type: lack.Type, Free: true, After: lackDelay}
	}
	switch {
	case is[*stepTimeError](err):
		return step.Class{Type: step.TimeOver, Final: true}
	case is[*noProgressError](err):
		return step.Class{Type: activities.NoProgress, Final: true}
	case errors.Is(err, errStopped):
		return step.Class{Type: activities.WorkerStopped, Free: true, After: stopDelay}
	case errors.Is(err, errFenced):
		return step.Class{Type: step.Fenced, Free: true}
	case is[*storageError](err):
		return step.Class{Type: step.Storage, Free: true}
	default:
		return step.Class{Type: activities.Internal}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// applicationError returns err as Temporal carries it.
func applicationError(err error, c step.Class, details ...any) error {
	options := temporal.ApplicationErrorOptions{NonRetryable: c.Final, NextRetryDelay: c.After, Cause: err, Details: details}
	if c.Free {
		options.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(message(err), c.Type, options)
}

// Error returns an error that follows a completed step as the activity's.
func (a *Attempt) Error(err error) error { return applicationError(err, classify(err), a.Failure()) }

// message is the error's text without what the SDK adds to its own errors.
func message(err error) string {
	var classified *temporal.ApplicationError
	if errors.As(err, &classified) {
		return classified.Message()
	}
	return err.Error()
}

// endedByServer reports whether err is the server's wish that the activity ends:
// cancelled, paused or reset. It is returned as it is.
func endedByServer(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && errors.Is(err, cause) && (isCancel(cause) || isHold(cause))
}

// isCancel reports a cancellation: pushed by the server through the SDK, or
// learnt from a heartbeat.
func isCancel(cause error) bool {
	return errors.Is(cause, context.Canceled) || temporal.IsCanceledError(cause)
}

// isHold reports that the attempt ends and the step goes on later.
func isHold(cause error) bool {
	return errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset)
}

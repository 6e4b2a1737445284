package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// noProgressError reports a step whose attempts timed out without progress.
type noProgressError struct{ attempts int }

func (e *noProgressError) Error() string {
	return fmt.Sprintf("%d attempts died without progress", e.attempts)
}

// Delays before retries that another worker may take.
const (
	stopDelay  = time.Second     // time until another worker may be up
	fenceDelay = 2 * time.Second // time until the server may be less busy
	lagDelay   = time.Second     // time until another worker may take the step
)

// maxSpread bounds the random part of a delay, which keeps the steps of a worker from retrying all
// at once.
const maxSpread = 5 * time.Second

func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return d + rand.N(min(d, maxSpread))
}

// classify returns the type of an error and its retry policy.
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
		return step.Class{Type: lack.Type, Free: true, After: activities.LackDelay}
	}
	switch {
	case step.Wraps[*stepTimeError](err):
		return step.Class{Type: step.TimeOver, Final: true}
	case step.Wraps[*noProgressError](err):
		return step.Class{Type: "NoProgress", Final: true}
	case errors.Is(err, errStopped):
		return step.Class{Type: "WorkerStopped", Free: true, After: stopDelay}
	case errors.Is(err, errFenced):
		return step.Class{Type: step.Fenced, Free: true, After: fenceDelay}
	case errors.Is(err, errLagging):
		return step.Class{Type: "WorkerLagging", Free: true, After: lagDelay}
	case step.Wraps[*storageError](err):
		return step.Class{Type: step.Storage, Free: true}
	default:
		return step.Class{Type: activities.Internal}
	}
}

// applicationError returns err as a Temporal application error of class c.
func applicationError(err error, c step.Class, details ...any) error {
	after := c.After
	if !step.Wraps[*llm.Error](err) { // a model's server sets the delay
		after = spread(after)
	}
	options := temporal.ApplicationErrorOptions{NonRetryable: c.Final, NextRetryDelay: after, Cause: err, Details: details}
	if c.Free {
		options.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(message(err), c.Type, options)
}

// Error converts an error that occurred after the step completed into the error of the activity.
func (a *Attempt) Error(err error) error { return applicationError(err, classify(err), a.Failure()) }

// message returns an error's text without the SDK's additions to its own errors.
func message(err error) string {
	if carried, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return carried.Message()
	}
	return err.Error()
}

// endedByServer reports whether the server ended the activity: it was cancelled,
// paused or reset.
func endedByServer(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && errors.Is(err, cause) && (isCancel(cause) || isHold(cause))
}

// isCancel reports whether cause is a cancellation, which the SDK delivers or a heartbeat returns.
func isCancel(cause error) bool {
	return errors.Is(cause, context.Canceled) || temporal.IsCanceledError(cause)
}

// isHold reports whether an operator paused or reset the activity, so that the step resumes later.
func isHold(cause error) bool {
	return errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset)
}

// storage wraps a store and returns its faults as *storageErrors: attempts wait for the end of an
// outage, whereas a bug must not be retried forever.
type storage struct{ store artifact.Store }

type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }
func (e *storageError) Unwrap() error { return e.err }

// fault wraps err, except for regular answers of a store and names that are invalid as keys.
func fault(err error) error {
	if err == nil || errors.Is(err, artifact.ErrNotFound) || errors.Is(err, artifact.ErrExists) || step.Wraps[*artifact.NameError](err) {
		return err
	}
	return &storageError{err}
}

// faulty applies fault to the error of a call that also returns a value.
func faulty[T any](value T, err error) (T, error) { return value, fault(err) }

func (s storage) Get(ctx context.Context, key string) ([]byte, error) {
	return faulty(s.store.Get(ctx, key))
}

func (s storage) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	return faulty(s.store.Open(ctx, key))
}

func (s storage) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return fault(s.store.Put(ctx, key, body))
}

func (s storage) PutBlobs(ctx context.Context, prefix string, contents []artifact.Content) error {
	return fault(s.store.PutBlobs(ctx, prefix, contents))
}

func (s storage) Create(ctx context.Context, key string, body []byte) error {
	return fault(s.store.Create(ctx, key, body))
}

func (s storage) Copy(ctx context.Context, src, dst string) error {
	return fault(s.store.Copy(ctx, src, dst))
}

func (s storage) Exists(ctx context.Context, key string) (bool, error) {
	return faulty(s.store.Exists(ctx, key))
}

func (s storage) Delete(ctx context.Context, key string) error {
	return fault(s.store.Delete(ctx, key))
}

func (s storage) DeleteAll(ctx context.Context, keys []string) error {
	return fault(s.store.DeleteAll(ctx, keys))
}

func (s storage) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return faults(s.store.List(ctx, prefix))
}

func (s storage) Objects(ctx context.Context, prefix string) iter.Seq2[artifact.Object, error] {
	return faults(s.store.Objects(ctx, prefix))
}

// faults applies fault to the errors of a listing.
func faults[T any](listing iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for listed, err := range listing {
			if !yield(listed, fault(err)) {
				return
			}
		}
	}
}

func (s storage) URL(key string) string { return s.store.URL(key) }

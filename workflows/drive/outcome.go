package drive

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Invalid returns the error for an input that cannot start a run.
func Invalid(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), InvalidInput, nil)
}

// Failure is the end of a step that has no result.
type Failure struct {
	attempt.Failure // step, token and usage; a zero step or usage is unknown

	Suspended  bool // the step was cancelled and can be resumed
	Unreported bool // the step number and the usage are unknown or outdated
	Cause      coordination.Failure
}

// Await returns the result of a step's activity in result. It returns a Failure if the step failed,
// was suspended, or was completed by an operator; in the last case the result has no execution
// token and no files in the store.
func Await(ctx workflow.Context, f workflow.Future, launch string, cancelled bool, result any, token func() string) *Failure {
	const uuid = 36 // characters of a run ID
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	if err := f.Get(ctx, result); err != nil {
		failure := FailureOf(err, run+"-"+launch, cancelled)
		return &failure
	}
	// After a reset, results may come from another run, of whose ID only the length is known.
	if of, found := strings.CutSuffix(token(), "-"+launch); found && (of == run || len(of) == uuid) {
		return nil
	}
	return &Failure{Failure: attempt.Failure{Token: run + "-" + launch}, Unreported: true, Cause: coordination.Failure{
		Type:    "CompletedByHand",
		Message: "the activity was completed from outside with a result that no step produced",
	}}
}

// FailureOf converts the final error of a step. token is used if the error does not contain one.
func FailureOf(err error, token string, cancelled bool) Failure {
	failure := Failure{Suspended: cancelled || temporal.IsCanceledError(err), Cause: causeOf(err)}
	// If the details have another type, the usage remains unknown.
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok && application.HasDetails() {
		_ = application.Details(&failure.Failure)
	} else if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok && cancelled.HasDetails() {
		_ = cancelled.Details(&failure.Failure)
	} else if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok && timeout.HasLastHeartbeatDetails() {
		_ = timeout.LastHeartbeatDetails(&failure.Failure)
	}
	_, timedOut := errors.AsType[*temporal.TimeoutError](err)
	failure.Unreported = timedOut || failure.Token == "" || failure.Step == 0
	failure.Token = cmp.Or(failure.Token, token)
	return failure
}

// causeOf returns the stable type and the message of an error.
func causeOf(err error) coordination.Failure {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return coordination.Failure{Type: cmp.Or(application.Type(), "FailedByHand"), Message: application.Message()}
	}
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return coordination.Failure{Type: "Timeout", Message: timeout.Error()}
	}
	return coordination.Failure{Type: "Unknown", Message: err.Error()}
}

// CanceledError returns the error with which a cancelled workflow ends. It contains the usage, for
// the workflow of a pipeline, and the result, for clients (see CanceledResult).
func CanceledError(usage llm.Usage, result any) error {
	return temporal.NewCanceledError(attempt.Failure{Usage: usage}, result)
}

// CanceledResult decodes the result of a cancelled workflow into a pointer to a zero value. It
// returns false if the error contains no result, for example because the workflow was cancelled
// before it was prepared.
func CanceledResult(err error, result any) bool {
	cancelled, ok := errors.AsType[*temporal.CanceledError](err)
	if !ok || !cancelled.HasDetails() {
		return false
	}
	var failure attempt.Failure
	return cancelled.Details(&failure, result) == nil && !reflect.ValueOf(result).Elem().IsZero()
}

// FinalError converts the error of an activity into the error with which the workflow fails.
func FinalError(err error) error {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return temporal.NewNonRetryableApplicationError(application.Message(), application.Type(), nil)
	}
	return err
}

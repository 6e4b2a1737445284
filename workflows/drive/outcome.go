package drive

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
)

// Invalid returns the error of an input that cannot become a run.
func Invalid(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), InvalidInput, nil)
}

// Token returns the execution token of a launch in this run, as its activity derives
// it.
func Token(ctx workflow.Context, launch string) string {
	return workflow.GetInfo(ctx).WorkflowExecution.RunID + "-" + launch
}

// IsToken reports whether t is an execution token of the launch, in this run or in the
// reset run that it repeats, of whose ID only the length is known.
func IsToken(ctx workflow.Context, t, launch string) bool {
	const uuid = 36 // characters of a run ID
	run, found := strings.CutSuffix(t, "-"+launch)
	return found && (run == workflow.GetInfo(ctx).WorkflowExecution.RunID || len(run) == uuid)
}

// Details returns the step, token and usage in the error of a step; zero fields are
// unknown. A missing token is the given one.
func Details(err error, token string) attempt.Failure {
	var detail attempt.Failure
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok && application.HasDetails() {
		_ = application.Details(&detail) // details of another shape leave the usage unknown
	} else if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok && cancelled.HasDetails() {
		_ = cancelled.Details(&detail)
	} else if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok && timeout.HasLastHeartbeatDetails() {
		_ = timeout.LastHeartbeatDetails(&detail)
	}
	if detail.Token == "" {
		detail.Token = token
	}
	return detail
}

// Failure describes the error of an activity by its stable type.
func Failure(err error) coordination.Failure {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		if application.Type() == "" {
			return coordination.Failure{Type: "FailedByHand", Message: application.Message()}
		}
		return coordination.Failure{Type: application.Type(), Message: application.Message()}
	}
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return coordination.Failure{Type: "Timeout", Message: timeout.Error()}
	}
	return coordination.Failure{Type: "Unknown", Message: err.Error()}
}

// ByHand describes an activity that was completed from outside. The store has nothing
// behind such a result.
func ByHand() coordination.Failure {
	return coordination.Failure{
		Type:    CompletedByHand,
		Message: "the activity was completed from outside with a result that no step produced",
	}
}

// FinalError turns the error of an activity into the error that fails its workflow.
func FinalError(err error) error {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return temporal.NewNonRetryableApplicationError(application.Message(), application.Type(), nil)
	}
	return err
}

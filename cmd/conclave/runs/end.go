package runs

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

// The error types of runs that were ended from outside.
const (
	terminated = "Terminated"
	cancelled  = "Cancelled"
	timedOut   = "WorkflowTimeout"
)

const ranOut = "the timeout with which the workflow was started ran out"

// endOf returns how Temporal ended a workflow. For a cancelled one cause is nil.
func endOf(kind *Kind, err error) (status string, cause *artifact.Error) {
	if _, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return drive.Cancelled, nil
	}
	cause = &artifact.Error{Type: "WorkflowFailed", Message: err.Error()}
	if _, ok := errors.AsType[*temporal.TerminatedError](err); ok {
		cause = &artifact.Error{Type: terminated, Message: "the workflow was terminated"}
	} else if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		cause = &artifact.Error{Type: application.Type(), Message: application.Message()}
	} else if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		cause = &artifact.Error{Type: timedOut, Message: ranOut}
	}
	return kind.Failed, cause
}

// EndError returns the reason why Temporal ended a run, including the message of the
// person who cancelled or terminated it. It returns nil for an open run and for one that
// ended by itself.
func EndError(ctx context.Context, conn *hall.Connection, run Run) *artifact.Error {
	switch run.closed {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return closingError(ctx, conn, run)
	}
	return nil
}

// WhyEnded returns the reason why Temporal ended a workflow, like EndError. It also
// returns nil if the server does not know the workflow.
func WhyEnded(ctx context.Context, conn *hall.Connection, workflow string) *artifact.Error {
	asking, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(asking, workflow, "")
	if err != nil {
		return nil
	}
	return EndError(ctx, conn, Run{Workflow: workflow, closed: reply.GetWorkflowExecutionInfo().GetStatus()})
}

// CutOff reports whether the error means that a run was terminated or timed out and
// could not write its result.
func CutOff(why *artifact.Error) bool {
	return why != nil && (why.Type == terminated || why.Type == timedOut)
}

// canGoOn reports whether an ended run can be continued: it was prepared, it failed, is undecided or
// was cancelled, and retry would not refuse it.
func (r Run) canGoOn(ctx context.Context, conn *hall.Connection) bool {
	_, prepared := r.Memo.GetFields()[drive.MemoPaused]
	if !prepared || r.Refused() || r.Status != r.Kind.Failed && r.Status != drive.Cancelled && !r.undecided() {
		return false
	}
	if r.Kind.Reopen == nil {
		return true
	}
	_, err := r.Kind.Reopen(ctx, conn, r, drive.Request{})
	return err == nil
}

// Refused reports whether the run failed because a worker refused its input.
func (r Run) Refused() bool { return r.closed == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED }

// closingError reads the reason from the last events of a run. It returns nil if they are
// unreadable.
func closingError(ctx context.Context, conn *hall.Connection, run Run) *artifact.Error {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	const enough = 100 // events; a cancelled run ends soon after the request
	reply, err := conn.Client.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: conn.Options.Namespace, MaximumPageSize: enough, Execution: &commonpb.WorkflowExecution{WorkflowId: run.Workflow},
	})
	if err != nil {
		return nil
	}
	return describeEnd(reply.GetHistory().GetEvents())
}

// describeEnd describes the end of a workflow from its events, the last one first.
func describeEnd(events []*historypb.HistoryEvent) *artifact.Error {
	if len(events) == 0 {
		return nil
	}
	last := events[0]
	switch last.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		a := last.GetWorkflowExecutionTerminatedEventAttributes()
		return &artifact.Error{Type: terminated, Message: "terminated" + by(a.GetIdentity(), a.GetReason())}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		for _, e := range events {
			if a := e.GetWorkflowExecutionCancelRequestedEventAttributes(); a != nil {
				return &artifact.Error{Type: cancelled, Message: "cancelled" + by(a.GetIdentity(), a.GetCause())}
			}
		}
		return &artifact.Error{Type: cancelled, Message: "cancelled"}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return &artifact.Error{Type: timedOut, Message: ranOut}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		f := last.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		return &artifact.Error{Type: f.GetApplicationFailureInfo().GetType(), Message: f.GetMessage()}
	}
	return nil
}

// by formats the name and the message of a person.
func by(identity, words string) string {
	said := ""
	if identity != "" {
		said = " by " + identity
	}
	if words != "" {
		said += ": " + words
	}
	return said
}

// EndLine returns a line for people about why a run ended, or "" if there is no
// reason.
func EndLine(status string, why *artifact.Error) string {
	switch {
	case why == nil || why.Message == "":
		return ""
	case why.Type == terminated, why.Type == cancelled:
		return "  " + progress.Line(why.Message)
	}
	return "  " + status + ": " + progress.Line(why.Message)
}

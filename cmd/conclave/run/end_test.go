package runs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/files/artifact"
	"conclave/workflows"
)

func TestResultOfASessionThatTemporalEnded(t *testing.T) {
	t.Parallel()
	status, cause := endOf(session, fmt.Errorf("workflow: %w", temporal.NewCanceledError()))
	require.Equal(t, "cancelled", status)
	require.Nil(t, cause)

	status, cause = endOf(session, fmt.Errorf("workflow: %w", temporal.NewNonRetryableApplicationError("the input has no query", workflows.InvalidInput, nil)))
	require.Equal(t, "failed", status)
	require.Equal(t, &artifact.Error{Type: workflows.InvalidInput, Message: "the input has no query"}, cause)

	status, _ = endOf(session, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil))
	require.Equal(t, "failed", status, "the workflow's own timeout is not the session's time")
}

func TestDescribeEnd(t *testing.T) {
	t.Parallel()
	terminated := func(identity, reason string) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{
			EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
				WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Identity: identity, Reason: reason},
			},
		}
	}
	requested := &historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes{
			WorkflowExecutionCancelRequestedEventAttributes: &historypb.WorkflowExecutionCancelRequestedEventAttributes{Identity: "kim", Cause: "wrong\nquestion"},
		},
	}
	failed := &historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
			WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: &failurepb.Failure{
				Message:     "no query",
				FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "InvalidInput"}},
			}},
		},
	}
	event := func(kind enumspb.EventType) *historypb.HistoryEvent { return &historypb.HistoryEvent{EventType: kind} }
	cancelled := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED)
	for line, events := range map[string][]*historypb.HistoryEvent{
		"":                                   {},
		"  terminated by 7@vm@: enough":      {terminated("7@vm@", "enough"), requested},
		"  terminated by 7@vm@":              {terminated("7@vm@", "")},
		"  terminated: enough":               {terminated("", "enough")},
		"  cancelled by kim: wrong question": {cancelled, event(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), requested},
		"  cancelled":                        {cancelled},
		"  failed: no query":                 {failed},
		"  failed: the timeout with which the workflow was started ran out": {event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT)},
	} {
		require.Equal(t, line, EndLine("failed", describeEnd(events)))
	}
	require.Nil(t, describeEnd([]*historypb.HistoryEvent{event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED), requested}))
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	require.True(t, CutOff(describeEnd([]*historypb.HistoryEvent{{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT}})))
	require.False(t, CutOff(&artifact.Error{Type: workflows.InvalidInput}))
	require.False(t, CutOff(nil))
}

package scenario

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/workflows/drive"
)

// ended is a server on which a person has ended every workflow; with an error, it knows no
// workflow.
type ended struct {
	client.Client
	status enumspb.WorkflowExecutionStatus
	err    error
}

func (e *ended) WorkflowService() workflowservice.WorkflowServiceClient { return past{} }

func (e *ended) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: e.status}}, e.err
}

// past has the last event of the histories of ended workflows.
type past struct {
	workflowservice.WorkflowServiceClient
}

func (past) GetWorkflowExecutionHistoryReverse(context.Context, *workflowservice.GetWorkflowExecutionHistoryReverseRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	last := &historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "wrong lamp", Identity: "kim@desk"},
		},
	}
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{last}}}, nil
}

// conn returns a connection to the server.
func (e *ended) conn() *hall.Connection {
	return &hall.Connection{CLI: &hall.CLI{Queue: drive.TaskQueue}, Client: e}
}

// The error of a run without a result names the reason and the next command.
func TestWithoutResult(t *testing.T) {
	t.Parallel()
	terminated := &ended{status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}
	open := &ended{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}
	unknown := &ended{err: serviceerror.NewNotFound("no such workflow")}
	r := &run{slug: "buy", id: "r1"}
	for _, c := range []struct {
		server *ended
		err    error
		want   string
		code   int
	}{
		{terminated, errors.New("terminated"), "run r1 of scenario buy was terminated by kim@desk: wrong lamp; `conclave scenario run shop buy --retry r1` continues it", hall.ExitUsage},
		{open, nil, "run r1 of scenario buy has ended without a result", hall.ExitUsage},
		{unknown, serviceerror.NewNotFound("no such workflow"), "there is no run r1 of scenario buy where this command looks; check --address and --data-dir", hall.ExitUsage},
		{open, temporal.NewApplicationError("no provider", activities.ConfigInvalid), "run r1 of scenario buy: no provider", hall.ExitUsage},
		{open, temporal.NewApplicationError("the store is down", "Storage"), "run r1 of scenario buy: the store is down", hall.ExitUsage},
		{open, context.DeadlineExceeded, "lost the connection to run r1 of scenario buy: context deadline exceeded; nothing of it is lost, `conclave scenario watch shop buy r1` continues it", hall.ExitInterrupted},
		{open, &temporal.WorkflowExecutionError{}, "`conclave scenario run shop buy --retry r1` continues it", hall.ExitUsage},
	} {
		err := withoutResult(t.Context(), c.server.conn(), "shop", r, c.err)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.code, hall.ExitCode(err), c.want)
	}
	require.True(t, r.wasCutOff(t.Context(), terminated.conn()))
	require.Equal(t, "Terminated", r.end.Type)
	require.False(t, r.wasCutOff(t.Context(), open.conn()))
	require.False(t, r.wasCutOff(t.Context(), &hall.Connection{CLI: &hall.CLI{}}), "a store alone knows no workflows")
}

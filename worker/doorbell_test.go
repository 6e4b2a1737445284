package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// described is a server that knows one run, with the memo given.
type described struct {
	client.Client
	memo    map[string]any
	pending []*workflowpb.PendingActivityInfo
}

func (d described) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if id != "s1" || run != "r1" {
		return nil, context.Canceled
	}
	fields := map[string]*commonpb.Payload{}
	for key, value := range d.memo {
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		if err != nil {
			return nil, err
		}
		fields[key] = payload
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Memo: &commonpb.Memo{Fields: fields}}, PendingActivities: d.pending,
	}, nil
}

func TestDoorbell_isReadFromTheMemo(t *testing.T) {
	t.Parallel()
	rung := coordination.Ring{
		Epoch: 3, Answers: []coordination.Shown{{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}}, Directive: coordination.WrapUp,
	}
	bell, err := temporalServer{client: described{memo: map[string]any{workflows.MemoDoorbell: rung, "round": 2}}}.Bell(t.Context(), "s1", "r1")
	require.NoError(t, err)
	require.Equal(t, rung, bell)

	bell, err = temporalServer{client: described{memo: map[string]any{"round": 2}}}.Bell(t.Context(), "s1", "r1")
	require.NoError(t, err)
	require.Zero(t, bell, "it was never rung")

	_, err = temporalServer{client: described{memo: map[string]any{workflows.MemoDoorbell: "ding"}}}.Bell(t.Context(), "s1", "r1")
	require.ErrorContains(t, err, "read the doorbell of workflow s1")

	_, err = temporalServer{client: described{}}.Bell(t.Context(), "s1", "another")
	require.ErrorContains(t, err, "run another")
}

// The server tells, with the doorbell, that it will cancel the activity that asks, and no other.
func TestDoorbell_tellsOfACancellation(t *testing.T) {
	t.Parallel()
	rung := coordination.Ring{Epoch: 1, Directive: coordination.Ending}
	for name, told := range map[string]bool{"this": true, "another": false} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivityWithOptions(func(ctx context.Context) error {
			pending := []*workflowpb.PendingActivityInfo{
				{ActivityId: activity.GetInfo(ctx).ActivityID, State: enumspb.PENDING_ACTIVITY_STATE_STARTED},
				{ActivityId: "agent_b-l2", State: enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED},
			}
			if name == "this" {
				pending[0].State = enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
			}
			bell, err := temporalServer{client: described{memo: map[string]any{workflows.MemoDoorbell: rung}, pending: pending}}.Bell(ctx, "s1", "r1")
			require.Equal(t, rung, bell, "with the reason")
			require.Equal(t, told, temporal.IsCanceledError(err), "%v", err)
			return nil
		}, activity.RegisterOptions{Name: "step"})
		_, err := env.ExecuteActivity("step")
		require.NoError(t, err)
	}
}

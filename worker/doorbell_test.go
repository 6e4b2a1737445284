package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// described is a server that knows one run, with the memo given.
type described struct {
	client.Client
	memo map[string]any
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
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Memo: &commonpb.Memo{Fields: fields}},
	}, nil
}

func TestDoorbell_isReadFromTheMemo(t *testing.T) {
	t.Parallel()
	rung := coordination.Ring{
		Epoch: 3, Answers: []coordination.Shown{{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}}, Directive: coordination.WrapUp,
	}
	bell, err := doorbell(described{memo: map[string]any{drive.MemoDoorbell: rung, "round": 2}})(t.Context(), "s1", "r1")
	require.NoError(t, err)
	require.Equal(t, rung, bell)

	bell, err = doorbell(described{memo: map[string]any{"round": 2}})(t.Context(), "s1", "r1")
	require.NoError(t, err)
	require.Zero(t, bell, "it was never rung")

	_, err = doorbell(described{memo: map[string]any{drive.MemoDoorbell: "ding"}})(t.Context(), "s1", "r1")
	require.ErrorContains(t, err, "reading the doorbell of workflow s1")

	_, err = doorbell(described{})(t.Context(), "s1", "another")
	require.ErrorContains(t, err, "run another")
}

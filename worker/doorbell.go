package worker

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"conclave/engine/step"
	"conclave/workflows/drive"
)

// doorbell reads the doorbell of a session's run from the memo of its workflow,
// for which no worker of workflows is needed.
func doorbell(c client.Client) func(ctx context.Context, workflowID, runID string) (step.Bell, error) {
	return func(ctx context.Context, workflowID, runID string) (step.Bell, error) {
		var bell step.Bell
		described, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
		if err != nil {
			return bell, fmt.Errorf("reading the memo of workflow %s, run %s: %w", workflowID, runID, err)
		}
		payload, rung := described.GetWorkflowExecutionInfo().GetMemo().GetFields()[drive.MemoDoorbell]
		if !rung {
			return bell, nil
		}
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &bell); err != nil {
			return step.Bell{}, fmt.Errorf("reading the doorbell of workflow %s: %w", workflowID, err)
		}
		return bell, nil
	}
}

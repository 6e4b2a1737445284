package runs

import (
	"context"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
	"conclave/workflows/drive"
)

// BeforeReset returns a line with the cost of a workflow's earlier runs that resets ended. The
// present run's cost includes only those of their steps that the reset kept. The line is empty
// if the workflow was never reset or the cost is unreadable.
func BeforeReset(ctx context.Context, conn *hall.Connection, run Run) string {
	if !run.reset {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = '%s' AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'", run.Workflow),
	})
	if err != nil {
		return ""
	}
	var sum llm.Usage
	for _, e := range reply.GetExecutions() {
		sum = sum.Add(earlierUsage(ctx, conn, run, e.GetExecution()))
	}
	if sum.ModelCalls == 0 {
		return ""
	}
	return "earlier runs, before a reset: " + progress.Cost(sum)
}

// earlierUsage returns the usage of an earlier run of a workflow from its state. It returns
// zero for the present run.
func earlierUsage(ctx context.Context, conn *hall.Connection, run Run, of *commonpb.WorkflowExecution) llm.Usage {
	if of.GetRunId() == run.execution {
		return llm.Usage{}
	}
	var state struct{ Cost, Usage llm.Usage }
	value, err := conn.Client.QueryWorkflow(ctx, run.Workflow, of.GetRunId(), drive.StateQuery)
	if err != nil || value.Get(&state) != nil {
		return llm.Usage{}
	}
	return state.Cost.Add(state.Usage)
}

package runs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"conclave/cmd/conclave/cli"
	"conclave/engine/llm"
)

// restarted is a server on which a workflow was reset twice. The state of its first run
// cannot be read.
type restarted struct {
	client.Client
	query string
}

func (r *restarted) ListWorkflow(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	r.query = in.GetQuery()
	reply := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range []string{"third", "second", "first"} {
		reply.Executions = append(reply.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "s1", RunId: id}})
	}
	return reply, nil
}

func (r *restarted) QueryWorkflow(_ context.Context, _, run, _ string, _ ...any) (converter.EncodedValue, error) {
	if run == "first" {
		return nil, context.DeadlineExceeded
	}
	usd := 0.071
	spent := map[string]llm.Usage{"cost": {InputTokens: 900, OutputTokens: 100, ModelCalls: 3, TotalUSD: &usd}}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(spent)
	return client.NewValue(payloads), err
}

func TestBeforeReset(t *testing.T) {
	t.Parallel()
	server := &restarted{}
	conn := &cli.Connection{CLI: &cli.CLI{}, Client: server}
	run := Run{Workflow: "s1", execution: "third"}
	require.Empty(t, BeforeReset(t.Context(), conn, run), "it was never reset")
	require.Empty(t, server.query)
	run.reset = true
	require.Equal(t, "earlier runs, before a reset: 1.0k tokens, $0.0710", BeforeReset(t.Context(), conn, run))
	require.Contains(t, server.query, "WorkflowId = 's1'")
}

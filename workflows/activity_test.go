package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	"conclave/workflows"
)

// A run keeps the heartbeat timeout that its Prepare recorded; older runs recorded none.
func TestStep_heartbeatTimeout(t *testing.T) {
	t.Parallel()
	for recorded, want := range map[int]time.Duration{0: attempt.HeartbeatTimeout, 45: 45 * time.Second} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.RegisterActivityWithOptions(func(ctx context.Context) (time.Duration, error) {
			return activity.GetInfo(ctx).HeartbeatTimeout, nil
		}, activity.RegisterOptions{Name: "timeout"})
		env.ExecuteWorkflow(func(ctx workflow.Context) (got time.Duration, err error) {
			ctx = workflows.Step(ctx, "agent_a-l1", "a step", time.Hour, recorded)
			return got, workflow.ExecuteActivity(ctx, "timeout").Get(ctx, &got)
		})
		var got time.Duration
		require.NoError(t, env.GetWorkflowResult(&got))
		require.Equal(t, want, got)
	}
}

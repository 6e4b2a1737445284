package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
	"conclave/workflows"
)

// A receiver that is down is tried again, later and later.
func TestNotify_backsOff(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	var at []time.Time
	var ids []string
	env.RegisterActivityWithOptions(func(_ context.Context, d activities.Delivery) error {
		at, ids = append(at, env.Now()), append(ids, d.ID)
		return errors.New("down")
	}, activity.RegisterOptions{Name: "Deliver"})
	env.ExecuteWorkflow(workflows.Notify, activities.Delivery{ID: "n1", Receiver: "NOTIFY_URL"})
	require.Error(t, env.GetWorkflowError())
	require.GreaterOrEqual(t, len(at), 10)
	require.Equal(t, 5*time.Second, at[1].Sub(at[0]))
	require.Equal(t, 15*time.Second, at[2].Sub(at[1]))
	require.Equal(t, time.Hour, at[9].Sub(at[8]), "at most")
	require.Equal(t, "n1", ids[len(ids)-1])
}

func TestReceiver_Choose(t *testing.T) {
	t.Parallel()
	overspent := workflows.EndTypes(true, true)
	for want, r := range map[string]activities.Receiver{
		"budget":  {},
		"decided": {Events: []string{"asked", "decided"}},
		"":        {Events: []string{"failed"}},
	} {
		require.Equal(t, want, r.Choose(overspent))
	}
	require.Equal(t, []string{"failed"}, workflows.EndTypes(false, false))
}

package session_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// tell has receivers told of the session, and returns the notices that are sent.
func (p *play) tell(receivers ...activities.Receiver) *[]activities.Delivery {
	p.prepared.Notify, p.prepared.URL = receivers, "s3://bucket/sessions/s1/session.json"
	var told []activities.Delivery
	p.RegisterWorkflowWithOptions(func(ctx workflow.Context, d activities.Delivery) error {
		told = append(told, d)
		i := len(told) - 1
		if workflow.Sleep(ctx, 10*time.Second) != nil { // until its receiver is up
			told[i].Notice.Type = "cancelled"
		}
		return nil
	}, workflow.RegisterOptions{Name: workflows.NotifyType})
	return &told
}

// A session tells once that it is parked, and once how it ended, each receiver what it asked for.
func TestNotify_parkedAndDecided(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{OnAgentFailure: "park"}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
		"agent_b": {answers(), fails("AuthFailed", "tok-l4"), votesFor("agent_a", 1, 0)},
	})
	told := p.tell(activities.Receiver{URLEnv: "ALL_URL"}, activities.Receiver{URLEnv: "END_URL", Events: []string{"decided"}})
	p.at(2*sessionTime, func() { p.asks(t, workflows.RetrySignal, nil, nil) })
	require.Equal(t, "consensus", p.run(t).Status)
	require.Len(t, *told, 3)
	slices.SortFunc((*told)[1:], func(a, b activities.Delivery) int { return strings.Compare(a.Receiver, b.Receiver) })
	parked, all, end := (*told)[0], (*told)[1], (*told)[2]
	require.Equal(t, "ALL_URL", parked.Receiver)
	require.Equal(t, "parked", parked.Notice.Type)
	require.Contains(t, parked.Notice.Summary, "AuthFailed")
	require.Equal(t, activities.Notice{
		Type: "decided", ID: "s1", Status: "consensus", Question: "Who?", Summary: "The answer.", Link: "s3://bucket/sessions/s1/",
	}, all.Notice)
	require.Equal(t, "/sessions/s1", all.Page)
	require.Equal(t, "END_URL", end.Receiver)
	require.Regexp(t, `^notify/s1/END_URL/decided-\d+-[0-9a-f]+$`, end.ID)
}

// Nobody is told of a cancellation, and of the sessions of an evaluation.
func TestNotify_silentEnds(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, duo())
	told := p.tell(activities.Receiver{URLEnv: "ALL_URL"})
	p.at(10, p.CancelWorkflow)
	p.ExecuteWorkflow(sessionflow.Type, sessionflow.Input{Query: "Q", SessionID: "s1"})
	require.True(t, temporal.IsCanceledError(p.GetWorkflowError()))
	require.Empty(t, *told)

	p = newPlay(coordination.Config{}, duo())
	told = p.tell(activities.Receiver{URLEnv: "ALL_URL"})
	p.at(10, func() { p.asks(t, workflows.FinishSignal, nil, nil) })
	p.ExecuteWorkflow(sessionflow.Type, sessionflow.Input{Query: "Q", SessionID: "eval-x-1-1"})
	require.NoError(t, p.GetWorkflowError())
	require.Empty(t, *told)
}

// A session that could not begin is told, too: nobody else sees that of the night.
func TestNotify_refused(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, duo())
	told := p.tell()
	p.OnActivity("Prepare", mock.Anything, mock.Anything).Return(acts.Prepared{},
		temporal.NewNonRetryableApplicationError("there is no source nightly", "ConfigInvalid", nil, []activities.Receiver{{URLEnv: "ALL_URL"}}))
	p.ExecuteWorkflow(sessionflow.Type, sessionflow.Input{Query: "Q", SessionID: "s1"})
	require.Error(t, p.GetWorkflowError())
	require.Len(t, *told, 1)
	require.Equal(t, activities.Notice{Type: "failed", ID: "s1", Status: "failed", Question: "Q", Summary: "ConfigInvalid: there is no source nightly"}, (*told)[0].Notice)
}

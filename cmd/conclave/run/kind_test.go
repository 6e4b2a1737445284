package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// session is a kind for tests.
var session = &Kind{Kind: record.Sessions, List: "list", MemoID: sessionflow.MemoSession, StateKeys: [2]string{"session_id", "query"}, UsageKey: "cost"}

func memoOf(t *testing.T, values map[string]any) *commonpb.Memo {
	t.Helper()
	m := &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	for k, v := range values {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		require.NoError(t, err)
		m.Fields[k] = p
	}
	return m
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	with := func(values map[string]any) *commonpb.Memo { return memoOf(t, values) }
	stale := with(map[string]any{workflows.MemoStatus: workflows.Running, workflows.MemoOffline: true})
	require.Equal(t, "running", StatusOf("failed", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil))
	require.Equal(t, "cancelled", StatusOf("failed", enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, stale), "Temporal's word counts")
	require.Equal(t, "failed", StatusOf("failed", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, stale))
	require.Equal(t, "plurality", StatusOf("failed", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, with(map[string]any{workflows.MemoStatus: "plurality"})))
	require.True(t, Memo(stale, workflows.MemoOffline, false))
	require.False(t, Memo(with(map[string]any{workflows.MemoOffline: "yes"}), workflows.MemoOffline, false), "another type is as good as nothing")
}

func TestNews_shownOnce(t *testing.T) {
	t.Parallel()
	entries := func(from, to int) (list []coordination.Entry) {
		for seq := from; seq <= to; seq++ {
			list = append(list, coordination.Entry{Seq: seq})
		}
		return list
	}
	f := Follower{}
	news, missed := f.News(entries(1, 3))
	require.Len(t, news, 3)
	require.Zero(t, missed)
	news, missed = f.News(entries(1, 5))
	require.Equal(t, entries(4, 5), news)
	require.Zero(t, missed)
	news, missed = f.News(entries(11, 60))
	require.Len(t, news, 50)
	require.Equal(t, 5, missed, "6 to 10 are no longer kept")
	news, _ = f.News(entries(11, 60))
	require.Empty(t, news)
}

func TestRunOf_waiting(t *testing.T) {
	t.Parallel()
	info := func(status string) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Memo: memoOf(t, map[string]any{workflows.MemoStatus: status})}
	}
	require.Equal(t, "paused", runOf(session, info(workflows.Paused)).waiting)
	require.Equal(t, "parked", runOf(session, info(workflows.Parked)).waiting)
	require.Equal(t, "parked", runOf(session, info(workflows.Parked)).Shown())
	require.Equal(t, "running", runOf(session, info(workflows.Running)).Shown())
	require.Equal(t, "parked", Waiting(true, new("agent_a failed")))
	require.Equal(t, "paused", Waiting(true, nil))
	require.Equal(t, "running", Waiting(false, nil))
	require.Empty(t, runOf(session, info(workflows.Running)).waiting)
	require.Empty(t, runOf(session, &workflowpb.WorkflowExecutionInfo{}).waiting)

	terminated := info(workflows.Parked)
	terminated.CloseTime = timestamppb.New(time.Unix(1, 0))
	require.Empty(t, runOf(session, terminated).waiting, "what was ended from outside waits for nobody")
}

func TestNotEnded_namesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{Queue: workflows.TaskQueue}}
	for waiting, says := range map[string]string{
		"": "session s1 is still running; wait for it with `conclave result --wait s1`, or follow it with `conclave watch s1`",
		workflows.Parked: "session s1 is parked and has no result yet: fix the cause that `conclave status s1` names, " +
			"then `conclave retry s1` continues it",
		workflows.Paused: "session s1 is paused and has no result yet; `conclave resume s1` resumes it",
	} {
		err := notEnded(t.Context(), conn, Run{Kind: session, ID: "s1", Workflow: "s1", waiting: waiting})
		require.EqualError(t, err, says)
		require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(err))
	}
}

func TestRun_seconds(t *testing.T) {
	t.Parallel()
	began := time.Unix(1e9, 0)
	require.Equal(t, 1.235, Run{Started: began, Closed: began.Add(1234567890)}.Seconds()) //nolint:testifylint // exactly the number in JSON
	require.Zero(t, Run{}.Seconds())
}

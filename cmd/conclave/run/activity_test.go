package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Running steps have reported their usage.
func TestSpentBy(t *testing.T) {
	t.Parallel()
	reported, err := converter.GetDefaultDataConverter().ToPayloads(map[string]any{"usage": llm.Usage{InputTokens: 10, ModelCalls: 1}})
	require.NoError(t, err)
	activity := func(kind string) *workflowpb.PendingActivityInfo {
		return &workflowpb.PendingActivityInfo{ActivityId: "agent_a-l1", ActivityType: &commonpb.ActivityType{Name: kind}, HeartbeatDetails: reported}
	}
	silent := activity("RunStep")
	silent.HeartbeatDetails = nil
	silent.ActivityId = "agent_b-l2"
	spent := spentBy([]*workflowpb.PendingActivityInfo{activity("RunStep"), activity("Record"), silent})
	require.Equal(t, map[string]llm.Usage{"agent_a": {InputTokens: 10, ModelCalls: 1}, "agent_b": {}}, spent)

	recorded := acts.State{View: coordination.View{Cost: llm.Usage{ModelCalls: 2}, Agents: []coordination.AgentView{
		{ID: "agent_a", Running: true, Cost: llm.Usage{ModelCalls: 2}}, {ID: "agent_b", Running: true},
	}}}
	state := Run{Spent: spent}.Counting(recorded)
	require.EqualValues(t, 3, state.Cost.ModelCalls)
	require.EqualValues(t, 3, state.Agents[0].Cost.ModelCalls)
	require.EqualValues(t, 2, recorded.Agents[0].Cost.ModelCalls, "the recorded state stays")
	recorded.Agents[0].Running = false
	require.EqualValues(t, 2, Run{Spent: spent}.Counting(recorded).Cost.ModelCalls, "an ended step is counted once")
}

//nolint:funlen // one table
func TestActivitiesOf(t *testing.T) {
	t.Parallel()
	const (
		scheduled = enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
		started   = enumspb.PENDING_ACTIVITY_STATE_STARTED
		paused    = enumspb.PENDING_ACTIVITY_STATE_PAUSED
		requested = enumspb.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED
	)
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	seconds := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	at := func(n int) *timestamppb.Timestamp { return timestamppb.New(seconds(n)) }
	beat := func(details map[string]any) *commonpb.Payloads {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(details)
		require.NoError(t, err)
		return payloads
	}
	spent := llm.Usage{ModelCalls: 2}
	limited := coordination.Doing{Kind: coordination.RateLimited, Since: seconds(-9), Until: seconds(12), What: "slow down"}
	calling := coordination.Doing{Kind: coordination.CallsModel, Since: seconds(-9), What: "model call 3"}
	failure := func(kind string) *failurepb.Failure {
		return &failurepb.Failure{
			Message:     "the server has\nno capacity",
			FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind}},
		}
	}
	lost := &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
		TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT},
	}}
	byHand := &workflowpb.PendingActivityInfo_PauseInfo{PauseTime: at(-40), PausedBy: &workflowpb.PendingActivityInfo_PauseInfo_Manual_{
		Manual: &workflowpb.PendingActivityInfo_PauseInfo_Manual{Identity: "kim@desk", Reason: "too\nloud"},
	}}
	held := coordination.Doing{
		Kind: coordination.OnHold, Since: seconds(-40),
		What: "paused by kim@desk (too loud); `temporal activity unpause --address here:7233 --namespace default --workflow-id s1 --activity-id dev-ops-l12` releases it",
	}
	type info = workflowpb.PendingActivityInfo
	for name, tt := range map[string]struct {
		activity *info
		kind     string // of the activity; by default a session's step
		want     coordination.Doing
	}{
		"at work":        {&info{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-4), HeartbeatDetails: beat(map[string]any{"doing": calling, "usage": spent})}, "", calling},
		"in a scenario":  {&info{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-4), HeartbeatDetails: beat(map[string]any{"doing": calling, "usage": spent})}, "RunScenarioStep", calling},
		"between calls":  {&info{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-4), HeartbeatDetails: beat(map[string]any{})}, "", coordination.Doing{}},
		"waiting inside": {&info{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-4), HeartbeatDetails: beat(map[string]any{"fruitless": 1, "doing": limited})}, "", limited},
		"just scheduled": {&info{State: scheduled, Attempt: 1, ScheduledTime: at(-1)}, "", coordination.Doing{}},
		"backing off": {
			&info{State: scheduled, Attempt: 2, LastFailure: failure("RateLimited"), LastAttemptCompleteTime: at(-3), NextAttemptScheduleTime: at(12)}, "",
			coordination.Doing{Kind: coordination.RateLimited, Since: seconds(-3), Until: seconds(12), What: "the server has no capacity"},
		},
		"in an outage": {
			&info{
				State: scheduled, Attempt: 7, LastFailure: failure("Network"), LastAttemptCompleteTime: at(-3), NextAttemptScheduleTime: at(12),
				HeartbeatDetails: beat(map[string]any{"away": map[string]any{"since": seconds(-500)}}),
			}, "",
			coordination.Doing{Kind: coordination.ModelAway, Since: seconds(-500), Until: seconds(12), What: "the server has no capacity"},
		},
		"trying again": {
			&info{State: started, Attempt: 2, LastFailure: failure("Network"), LastStartedTime: at(-1), LastHeartbeatTime: at(-60), HeartbeatDetails: beat(map[string]any{"doing": limited})}, "",
			coordination.Doing{Since: seconds(-1), What: "trying again after: the server has no capacity"},
		},
		"calling again": {
			&info{State: started, Attempt: 2, LastFailure: failure("Network"), LastStartedTime: at(-9), LastHeartbeatTime: at(-9), HeartbeatDetails: beat(map[string]any{"fruitless": 1, "doing": calling, "usage": spent})}, "",
			coordination.Doing{Kind: coordination.CallsModel, Since: seconds(-9), What: "model call 3; trying again after: the server has no capacity"},
		},
		"limited again": {
			&info{State: started, Attempt: 2, LastFailure: failure("RateLimited"), LastStartedTime: at(-9), LastHeartbeatTime: at(-9), HeartbeatDetails: beat(map[string]any{"fruitless": 1, "doing": limited})}, "", limited,
		},
		"progress again": {&info{State: started, Attempt: 2, LastFailure: failure("Network"), LastStartedTime: at(-9), LastHeartbeatTime: at(-9), HeartbeatDetails: beat(map[string]any{"doing": calling, "usage": spent})}, "", calling},
		"worker killed": {
			&info{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-20)}, "",
			coordination.Doing{Kind: coordination.Queued, Since: seconds(-20), Until: seconds(10), What: "its worker is gone; another one will take the step"},
		},
		"after a kill":       {&info{State: started, Attempt: 2, LastStartedTime: at(-1), LastFailure: lost}, "", coordination.Doing{Since: seconds(-1), What: "attempt 2 after the loss of its worker"}},
		"no worker takes it": {&info{State: scheduled, Attempt: 1, ScheduledTime: at(-30)}, "", coordination.Doing{Kind: coordination.Queued, Since: seconds(-30), What: "no worker has taken it yet: all are busy, or none is running"}},
		"no worker takes it again": {
			&info{State: scheduled, Attempt: 2, LastFailure: failure("Network"), ScheduledTime: at(-300), NextAttemptScheduleTime: at(-30)}, "",
			coordination.Doing{Kind: coordination.Queued, Since: seconds(-30), What: "no worker has taken it yet: all are busy, or none is running"},
		},
		"paused by hand":       {&info{State: paused, Paused: true, Attempt: 2, LastFailure: lost, ScheduledTime: at(-90), PauseInfo: byHand}, "", held},
		"about to be paused":   {&info{State: requested, Paused: true, Attempt: 1, LastStartedTime: at(-90), PauseInfo: byHand}, "", held},
		"work of another kind": {&info{State: scheduled, Attempt: 3, LastFailure: failure("Storage"), LastAttemptCompleteTime: at(-1), NextAttemptScheduleTime: at(4)}, "Prepare", coordination.Doing{Kind: coordination.Queued, Since: seconds(-1), Until: seconds(4), What: "attempt 3 after Storage: the server has no capacity"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.activity.ActivityId, tt.activity.ActivityType = "dev-ops-l12", &commonpb.ActivityType{Name: "RunStep"}
			want := cli.Activity{Agent: "dev-ops", Doing: tt.want}
			if tt.kind != "" {
				tt.activity.ActivityType.Name = tt.kind
			}
			if tt.kind == "Prepare" {
				want.Agent, want.Work = "", tt.kind
			}
			conn := &cli.Connection{Target: cli.Target{Options: client.Options{HostPort: "here:7233", Namespace: "default"}}}
			got := activitiesOf(conn, "s1", []*info{tt.activity}, now)
			if tt.want.What == "" {
				require.Empty(t, got)
				return
			}
			require.Equal(t, []cli.Activity{want}, got)
		})
	}
}

// A model call is the first one of its step until the step has used the model.
func TestActivitiesOf_first(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		kind  coordination.DoingKind
		calls int64
		want  bool
	}{
		{coordination.CallsModel, 0, true},
		{coordination.CallsModel, 1, false},
		{coordination.RateLimited, 0, false},
	} {
		details, err := converter.GetDefaultDataConverter().ToPayloads(map[string]any{
			"doing": coordination.Doing{Kind: tt.kind, What: "anything"}, "usage": llm.Usage{ModelCalls: tt.calls},
		})
		require.NoError(t, err)
		got := activitiesOf(&cli.Connection{}, "s1", []*workflowpb.PendingActivityInfo{{
			ActivityId: "agent_a-l1", ActivityType: &commonpb.ActivityType{Name: "RunStep"}, State: enumspb.PENDING_ACTIVITY_STATE_STARTED,
			LastStartedTime: timestamppb.New(now), LastHeartbeatTime: timestamppb.New(now), HeartbeatDetails: details,
		}}, now)
		require.Len(t, got, 1)
		require.Equal(t, tt.want, got[0].First)
	}
}

// The work of a team names its session, for links, and the command that follows it.
func TestTeamActivity(t *testing.T) {
	t.Parallel()
	a := teamActivity(&cli.Connection{CLI: &cli.CLI{}}, "p1-decide-l2")
	require.Equal(t, "p1-decide-l2", a.Session)
	require.Equal(t, "session p1-decide-l2; `conclave watch p1-decide-l2", strings.Split(a.What, " --")[0])
}

package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"conclave/cmd/conclave/progress"
)

func TestDelaysOf(t *testing.T) {
	t.Parallel()
	const (
		scheduled = enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
		started   = enumspb.PENDING_ACTIVITY_STATE_STARTED
	)
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	at := func(seconds int) *timestamppb.Timestamp {
		return timestamppb.New(now.Add(time.Duration(seconds) * time.Second))
	}
	step := func(id string, a *workflowpb.PendingActivityInfo) *workflowpb.PendingActivityInfo {
		a.ActivityId, a.ActivityType = id, &commonpb.ActivityType{Name: "RunStep"}
		return a
	}
	overloaded := &failurepb.Failure{
		Message:     "the server has\nno capacity",
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "Overloaded"}},
	}
	lost := &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
		TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT},
	}}
	prepare := step("5", &workflowpb.PendingActivityInfo{State: scheduled, Attempt: 3, LastFailure: overloaded, NextAttemptScheduleTime: at(4)})
	prepare.ActivityType.Name = "Prepare"
	for name, tt := range map[string]struct {
		activity *workflowpb.PendingActivityInfo
		want     []progress.Delay
	}{
		"at work":        {step("agent_a-l1", &workflowpb.PendingActivityInfo{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-4)}), nil},
		"just scheduled": {step("agent_a-l1", &workflowpb.PendingActivityInfo{State: scheduled, Attempt: 1, ScheduledTime: at(-1)}), nil},
		"backing off": {
			step("agent_a-l1", &workflowpb.PendingActivityInfo{State: scheduled, Attempt: 2, LastFailure: overloaded, NextAttemptScheduleTime: at(12)}),
			[]progress.Delay{{Agent: "agent_a", Why: "attempt 2, Overloaded: the server has no capacity; again", Next: 12 * time.Second}},
		},
		"trying again": {
			step("dev-ops-l12", &workflowpb.PendingActivityInfo{State: started, Attempt: 2, LastFailure: overloaded, LastStartedTime: at(-1), LastHeartbeatTime: at(-60)}),
			[]progress.Delay{{Agent: "dev-ops", Why: "attempt 2, Overloaded: the server has no capacity"}},
		},
		"worker killed": {
			step("agent_a-l1", &workflowpb.PendingActivityInfo{State: started, Attempt: 1, LastStartedTime: at(-60), LastHeartbeatTime: at(-20)}),
			[]progress.Delay{{Agent: "agent_a", Why: "its worker is gone; the step is given to another", Next: 10 * time.Second}},
		},
		"after a kill": {
			step("agent_a-l1", &workflowpb.PendingActivityInfo{State: started, Attempt: 2, LastStartedTime: at(-1), LastFailure: lost}),
			[]progress.Delay{{Agent: "agent_a", Why: "attempt 2, the worker of the last one was lost"}},
		},
		"no worker takes it": {
			step("agent_a-l1", &workflowpb.PendingActivityInfo{State: scheduled, Attempt: 1, ScheduledTime: at(-30)}),
			[]progress.Delay{{Agent: "agent_a", Why: "no worker has taken it yet: none has room, or none runs"}},
		},
		"not a step": {
			prepare,
			[]progress.Delay{{Work: "Prepare", Why: "attempt 3, Overloaded: the server has no capacity; again", Next: 4 * time.Second}},
		},
	} {
		require.Equal(t, tt.want, delaysOf([]*workflowpb.PendingActivityInfo{tt.activity}, now), name)
	}
}

package start

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	sessionflow "conclave/workflows/session"
)

// No agent is shown at work in a closed session, even if its last recorded state says so.
func TestCloseState(t *testing.T) {
	t.Parallel()
	parked := "retry or cancel"
	state := acts.State{SessionID: "s1", Status: "running", View: coordination.View{
		Phase: coordination.PhaseCoordinating, Paused: true, Parked: &parked, Round: 2,
		Agents: []coordination.AgentView{{ID: "agent_a", Status: "answered", Answers: 1, LatestLabel: "agent1.1"}, {ID: "agent_b", Running: true}},
	}}
	why := &artifact.Error{Type: "Terminated", Message: "terminated by kim: enough"}
	closeState(&state, runs.Run{ID: "s1", Status: "failed"}, why)
	require.Equal(t, "failed", state.Status)
	require.Equal(t, coordination.PhaseDone, state.Phase)
	require.Equal(t, why, state.Error)
	require.False(t, state.Paused)
	require.Nil(t, state.Parked)
	require.Equal(t, []string{
		"s1 · failed · round 2 · 0:00", "  ✓ agent_a  answered   agent1.1", "  · agent_b  no answer", "  no fresh votes · no tokens",
	}, cli.SnapshotTable(cli.Snapshot{State: state}))
}

// A session that Temporal ended shows the cost of its last record.
func TestClosedState_onRecord(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	last := acts.State{SessionID: "s1", Status: "running", View: coordination.View{Round: 3, Cost: llm.Usage{ModelCalls: 7}, Agents: []coordination.AgentView{{ID: "agent_a"}}}}
	require.NoError(t, artifact.PutJSON(t.Context(), store, "sessions/s1/status.json", last))
	conn := &cli.Connection{Store: store}
	state := closedState(t.Context(), conn, runs.Run{Kind: Kind(), ID: "s1", Status: "failed"}, sessionflow.Result{})
	require.EqualValues(t, 7, state.Cost.ModelCalls)

	r := sessionReporter{}.CompleteResult(runs.Run{}, sessionReporter{}.NewResult(runs.Run{ID: "s1"}, "failed", nil), state)
	require.Equal(t, 3, r.Rounds)
	require.EqualValues(t, 7, r.Cost.ModelCalls)
	require.Equal(t, 1, r.Agents)
	require.NotNil(t, r.Voters, "a list for scripts")
}

// A session that ended after it was looked up shows the reason of its end and no command that
// follows it.
func TestStatus_endedMeanwhile(t *testing.T) {
	t.Parallel()
	server := &stage.Server{}
	server.Add(&stage.Execution{
		ID: "s1", Type: sessionflow.Type, Status: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		State: acts.State{SessionID: "s1", Status: "cancelled", View: coordination.View{Phase: coordination.PhaseDone}},
		Last:  &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED},
	})
	conn, stdout, _ := server.Connect(nil)
	require.NoError(t, sessionReporter{}.PrintStatus(t.Context(), conn, runs.Run{Kind: Kind(), ID: "s1", Workflow: "s1", Status: "running"}))
	require.Contains(t, stdout.String(), "\n  cancelled\n")
	require.NotContains(t, stdout.String(), "follow it")
	require.NotContains(t, stdout.String(), "retry", "it was never prepared")
}

package start

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pipelineacts "conclave/activities/pipeline"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

func TestHolds_nameTheReleasingCommand(t *testing.T) {
	t.Parallel()
	c := &cli.CLI{Queue: workflows.TaskQueue, DataDir: "/data"}
	running := acts.State{Status: workflows.Running}
	require.Empty(t, sessionHolds(c, running, "s1"))

	paused := running
	paused.Paused = true
	require.Equal(t, []cli.Hold{{Why: "paused by a person", Release: "`conclave resume s1 --data-dir /data` resumes it"}}, sessionHolds(c, paused, "s1"))

	parked := paused
	parked.Parked = new("retry, finish or cancel: agent_b failed, Overloaded: no capacity")
	require.Equal(t, []cli.Hold{
		{Why: "paused by a person", Release: "`conclave resume s1 --data-dir /data` resumes it"},
		{
			Why:     "parked: agent_b failed, Overloaded: no capacity",
			Release: "`conclave retry s1 --data-dir /data` runs the failed steps again, `cancel` ends the session",
			Parked:  true,
		},
	}, sessionHolds(c, parked, "s1"), "without an answer there is nothing to decide on")

	parked.Agents = []coordination.AgentView{{ID: "agent_a", Answers: 1}, {ID: "agent_b"}}
	require.Equal(t, "`conclave retry s1 --data-dir /data` runs the failed steps again, `finish` decides without them",
		sessionHolds(c, parked, "s1")[1].Release)

	ended := parked
	ended.Status = "cancelled"
	require.Empty(t, sessionHolds(c, ended, "s1"), "an end needs no release")
}

func TestRevote_currentRound(t *testing.T) {
	t.Parallel()
	state := acts.State{Status: workflows.Running, View: coordination.View{Round: 3}}
	events := []coordination.Entry{{Kind: "round", Round: 3}, {Kind: "revote", Round: 2}}
	require.False(t, repeatsVote(state, events))
	events = append(events, coordination.Entry{Kind: "revote", Round: 3})
	require.True(t, repeatsVote(state, events))
	state.Status = "plurality"
	require.False(t, repeatsVote(state, events))
}

func TestComplete_openSession(t *testing.T) {
	t.Parallel()
	failure := coordination.Failure{Type: "Outage", Message: "no reply"}
	last := acts.State{View: coordination.View{
		Round: 1, Agents: []coordination.AgentView{{ID: "agent_a", Status: "failed", Error: &failure}, {ID: "agent_b"}},
	}}
	r := sessionReporter{}.CompleteResult(runs.Run{}, sessionReporter{}.NewResult(runs.Run{ID: "s1", Started: time.Now().Add(-time.Minute)}, workflows.Running, nil), last)
	require.GreaterOrEqual(t, r.DurationSeconds, 60.0)
	require.InDelta(t, math.Round(1000*r.DurationSeconds), 1000*r.DurationSeconds, 1e-6, "whole milliseconds")
	require.Equal(t, 1, r.Rounds)
	require.Equal(t, 2, r.Agents)
	require.Equal(t, []coordination.FailedAgent{{ID: "agent_a", Error: failure}}, r.Failed)
}

// The JSON result of a parked session names the failed agents, and has the cost.
func TestKind_resultOfAParkedSession(t *testing.T) {
	t.Parallel()
	failure := coordination.Failure{Type: "Outage", Message: "no reply"}
	state := acts.State{Status: workflows.Running, View: coordination.View{
		Round: 2, Parked: new("retry, finish or cancel: agent_a failed"), Cost: llm.Usage{ModelCalls: 5},
		Agents: []coordination.AgentView{{ID: "agent_a", Error: &failure}},
	}}
	server := &stage.Server{}
	server.Add(&stage.Execution{ID: "asked", Type: sessionflow.Type, State: state})
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, artifact.PutJSON(t.Context(), store, "sessions/recorded/status.json", state))
	conn, _, _ := server.Connect(store)
	for _, id := range []string{"asked", "recorded"} {
		r, ok := Kind().OpenResult(t.Context(), conn, runs.Run{Kind: Kind(), ID: id, Workflow: id, Status: workflows.Running}).(sessionflow.Result)
		require.True(t, ok)
		require.Equal(t, []coordination.FailedAgent{{ID: "agent_a", Error: failure}}, r.Failed, id)
		require.EqualValues(t, 5, r.Cost.ModelCalls)
		require.Equal(t, 2, r.Rounds)
	}
}

// A status has a line for each open branch, and counts those beyond twelve.
func TestBranchLines(t *testing.T) {
	t.Parallel()
	why := "retry or cancel: read of each/1 failed, Network: no line"
	s := pipelineacts.State{View: pipeline.View{Branches: []pipeline.LaneView{
		{Branch: "each/0", Step: "deep", Stack: []string{"read"}}, {Branch: "each/1", Step: "read", Parked: &why},
	}}}
	require.Equal(t, []string{"    each/0 at deep, waiting callers: read", "    each/1 at read: " + why}, branchLines(s))
	for range 15 {
		s.Branches = append(s.Branches, pipeline.LaneView{Branch: "each/2", Step: "read"})
	}
	lines := branchLines(s)
	require.Len(t, lines, 13)
	require.Equal(t, "    and 5 more", lines[12])
}

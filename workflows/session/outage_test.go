package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// longAway is an outage that has lasted for longer than a step waits.
func longAway() *llm.Error {
	return &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "overloaded", Since: time.Now().Add(-11 * time.Minute)}
}

// When every model is away the session waits, and resumes the steps where they were.
func TestSession_OutageOfEveryModel(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Call("write_file", map[string]string{"path": "x", "content": "y"}), longAway(), longAway(), stagetest.Vote("agent1")},
	}, nil)
	began := s.Now()
	var waiting *coordination.Doing
	s.RegisterDelayedCallback(func() { waiting = stagetest.State[acts.State](t, s).Agents[0].Doing }, 30*time.Second)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.NotNil(t, waiting, "the wait is in the state")
	require.Equal(t, coordination.ModelAway, waiting.Kind)
	require.Regexp(t, `^no usable reply for 11m\d+s: overloaded$`, waiting.What)
	require.WithinDuration(t, began, waiting.Since, 30*time.Second)
	require.Equal(t, time.Minute, waiting.Until.Sub(waiting.Since))
	require.Nil(t, stagetest.State[acts.State](t, s).Agents[0].Doing)
	require.EqualValues(t, 3, result.Cost.ModelCalls, "no reply is paid again")
	require.GreaterOrEqual(t, s.Now().Sub(began), 3*time.Minute, "it waited one minute, then two")
	require.Equal(t, "voted", string(stagetest.State[acts.State](t, s).Agents[0].Status))
}

// The outage of one model does not hold up the others.
func TestSession_OutageOfOneModel(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")},
		"agent_c": {stagetest.WriteFile("half of it"), longAway(), longAway(), longAway()},
	}, nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, map[string]int{"agent_a": 2}, result.Votes)
	require.Equal(t, []string{"agent_a", "agent_b"}, result.Voters)
	require.Equal(t, 3, result.Agents)
	require.Len(t, result.Failed, 1)
	require.Equal(t, "agent_c", result.Failed[0].ID)
	require.Equal(t, "Outage", result.Failed[0].Error.Type)
	require.Nil(t, result.Tie)
	require.Equal(t, 3, s.Cast["agent_c"].Asked, "it tries again with every wave")
	require.EqualValues(t, 5, result.Cost.ModelCalls, "a reply before the outage counts, once")
	requireLeft(t, s, "agent_c", 2, "Outage")
}

// A model that has never replied parks the session at once; after retry it continues.
func TestSession_UnreachedModelParks(t *testing.T) {
	t.Parallel()
	refused := &llm.Error{Kind: llm.Network, Message: "model m at 127.0.0.1:1: no response: connection refused"}
	s := stagetest.New(t, map[string][]any{"agent_a": {refused, stagetest.Answer("A."), stagetest.Vote("agent1")}}, nil)
	s.RegisterDelayedCallback(func() {
		parked := stagetest.State[acts.State](t, s).Parked
		require.NotNil(t, parked)
		require.Equal(t, "retry after mending it, or cancel: agent_a: no reply since the start: "+refused.Message, *parked)
		s.SignalWorkflow(workflows.RetrySignal, workflows.Request{})
	}, time.Hour)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?"})
	require.Equal(t, "consensus", result.Status, "%v", result.Error)
	require.Equal(t, 3, s.Cast["agent_a"].Asked)
}

// requireLeft checks that a step without an action has left its transcript and the file x,
// and that last_action.json names them with the type of the error.
func requireLeft(t *testing.T, s *stagetest.Stage, agent string, number int, cause string) {
	t.Helper()
	layout := artifact.InBucket("s1")
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, layout.Agent(agent, "last_action.json"))
	require.NoError(t, err)
	require.Equal(t, "none", last.Action)
	require.Equal(t, number, last.StepNumber)
	require.Equal(t, cause, last.Error.Type)
	require.Contains(t, *last.PartialPath, s.Store.URL(layout.Step(agent, number, "partial")))
	files, err := artifact.ReadJSON[artifact.Change](t.Context(), s.Store, layout.Step(agent, number, "partial.json"))
	require.NoError(t, err)
	require.Equal(t, "x", files.Delta().Changed[0].Path)
	transcript, err := s.Store.Get(t.Context(), layout.Step(agent, number, "transcript.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(transcript), "half of it")
}

// The session ends without resuming a suspended step, whose files are then named.
func TestSession_SuspendedStepOfADecision(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.WriteFile("half of it"), stagetest.Limited},
	}, nil)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() {
		_, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, "sessions/s1/agents/agent_b/last_action.json")
		require.ErrorIs(t, err, artifact.ErrNotFound, "the step may go on")
		s.SignalWorkflow(workflows.FinishSignal, nil)
	}, 2*time.Minute)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "finished", result.Status)
	requireLeft(t, s, "agent_b", 1, activities.Suspended)
}

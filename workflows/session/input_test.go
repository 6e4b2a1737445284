package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	sessionacts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

func TestSession_InvalidInputFailsAtOnce(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]session.Input{
		"no query":        {},
		"blank query":     {Query: " \n"},
		"huge query":      {Query: strings.Repeat("x", workflows.MaxInput+1)},
		"empty turn":      {Query: "q", History: []artifact.Turn{{}}},
		"huge history":    {Query: "q", History: []artifact.Turn{{Answer: strings.Repeat("x", workflows.MaxInput)}}},
		"history twice":   {Query: "q", History: []artifact.Turn{{Query: "p", Answer: "a"}}, Continues: "s0"},
		"continues":       {Query: "q", Continues: "../s0"},
		"continues none":  {Query: "q", Continues: "s0"},
		"negative time":   {Query: "q", Limits: artifact.Limits{Seconds: -1}},
		"negative cost":   {Query: "q", Limits: artifact.Limits{CostUSD: -1}},
		"resume, limits":  {Resume: true, Limits: artifact.Limits{Seconds: 60}},
		"resume, history": {Resume: true, Continues: "s0"},
		"id leaves":       {Query: "q", SessionID: "../other"},
		"unknown team":    {Query: "q", Team: "nobody"},
		"team and config": {Query: "q", Team: "default", Config: json.RawMessage(`{}`)},
		"bad config":      {Query: "q", Config: json.RawMessage(`{"agents":[{"id":"A B"}]}`)},
		"reaches out":     {Query: "q", Config: json.RawMessage(`{"agents":[{"id":"a","backend":{"model":"m","base_url":"http://127.0.0.1:1"}}]}`)},
		"bad schema":      {Query: "q", AnswerSchema: json.RawMessage(`{"type":"strng"}`)},
		"no such texts":   {Query: "q", Conversation: artifact.SumOf(nil)},
		"texts elsewhere": {Query: "q", Conversation: "../../s0/session"},
		"resume, texts":   {Resume: true, Conversation: artifact.SumOf(nil)},
		"resume, schema":  {Resume: true, AnswerSchema: json.RawMessage(`{}`)},
		"bad criteria":    {Query: "q", EvalCriteria: json.RawMessage(`{"criteria":[{}]}`)},
		"forged":          stagetest.Continued[session.Input](t, `{"query":"q","session_id":"another","continued":{"core":{}}}`),
		"forged, empty":   stagetest.Continued[session.Input](t, `{"query":"q","continued":{}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stagetest.New(t, stagetest.Seed(), nil)
			s.ExecuteWorkflow(session.Type, in)
			require.True(t, s.IsWorkflowCompleted())
			var refused *temporal.ApplicationError
			require.ErrorAs(t, s.GetWorkflowError(), &refused)
			require.True(t, refused.NonRetryable())
			require.Contains(t, []string{workflows.InvalidInput, activities.ConfigInvalid}, refused.Type())
			require.Zero(t, s.Cast["agent_a"].Asked, "nothing was paid for")
		})
	}
}

// A session continues a decided one: its agents and its presenter are shown the conversation,
// and the session after it goes on with both turns.
func TestSession_Continues(t *testing.T) {
	t.Parallel()
	first := stagetest.New(t, map[string][]any{"agent_a": {stagetest.Answer("Two moons."), stagetest.Vote("agent1")}}, nil)
	first.ExecuteWorkflow(session.Type, session.Input{
		Query: "How many moons has Mars?", SessionID: "s1", History: []artifact.Turn{{Query: "And Venus?", Answer: "None."}},
	})
	require.NoError(t, first.GetWorkflowError())

	second := stagetest.NewOn(t, first.Store, map[string][]any{"agent_a": {stagetest.Answer("Phobos and Deimos."), stagetest.Vote("agent1"), stagetest.Answer("Phobos, Deimos.")}}, func(c *config.Team) {
		c.Orchestrator.FinalAnswerStrategy = "winner_present"
	})
	second.Cast["agent_a"].Saw = func(_ int, req llm.Request) {
		for _, text := range []string{"And Venus?", "None.", "How many moons has Mars?", "Two moons."} {
			require.Contains(t, req.Messages[1].Content, text)
		}
	}
	second.ExecuteWorkflow(session.Type, session.Input{Query: "What are they called?", SessionID: "s2", Continues: "s1", Team: "default"})
	require.NoError(t, second.GetWorkflowError())
	require.Equal(t, 3, second.Cast["agent_a"].Asked)
	status, err := artifact.ReadJSON[sessionacts.State](t.Context(), first.Store, "sessions/s2/status.json")
	require.NoError(t, err)
	require.Equal(t, "s1", status.Continues)

	next, err := sessionacts.Continue(t.Context(), first.Store, "s2")
	require.NoError(t, err)
	require.Equal(t, []artifact.Turn{
		{Query: "And Venus?", Answer: "None."},
		{Query: "How many moons has Mars?", Answer: "Two moons."},
		{Query: "What are they called?", Answer: "Phobos, Deimos."},
	}, next.Turns)
}

// An input that cannot be decoded fails with a reason instead of hanging in its first
// task.
func TestSession_UndecodableInput(t *testing.T) {
	t.Parallel()
	for _, in := range []any{"hello", 5, []string{"q"}, map[string]any{"query": 5}, nil} {
		s := stagetest.New(t, stagetest.Seed(), nil)
		s.ExecuteWorkflow(session.Type, in)
		var refused *temporal.ApplicationError
		require.ErrorAs(t, s.GetWorkflowError(), &refused, in)
		require.Equal(t, workflows.InvalidInput, refused.Type(), in)
	}
}

func TestSession_DirectoryOfAnotherWorkflowIsRefused(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, stagetest.Seed(), nil)
	require.NoError(t, artifact.CreateJSON(t.Context(), s.Store, "sessions/s1/session.json", artifact.Session{Owner: artifact.Owner{WorkflowID: "other", FirstRunID: "r"}}))
	s.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, s.GetWorkflowError(), &refused)
	require.Equal(t, activities.SessionTaken, refused.Type())
}

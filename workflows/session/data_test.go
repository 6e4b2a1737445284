package session_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

const choice = `{"type": "object", "properties": {"why": {"type": "string", "x-conclave-ignore": true}, "choice": {"enum": ["tabs", "spaces"]}}, "required": ["choice"]}`

// give returns a call of new_answer with data.
func give(data string) llm.Message {
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c", Name: "new_answer", Arguments: `{"data": ` + data + `}`}}}
}

// The schema of a session's input holds for all agents: data that do not fit are refused, equal data
// in other words decide without a vote, and the result and answer.json have them.
func TestSession_answersAreData(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {give(`{"choice": "spaces"}`)},
		"agent_b": {give(`{"choice": "both"}`), stagetest.Answer("tabs"), give(`{"why": "They are short.", "choice": "tabs"}`)},
		"agent_c": {stagetest.Text("I think:\n```json\n{\"choice\": \"tabs\", \"why\": \"Habit.\"}\n```")},
	}, func(team *config.Team) { team.Orchestrator.EarlyAgreement = true })
	var refused atomic.Int64
	s.Cast["agent_b"].Saw = func(call int, req llm.Request) {
		last := req.Messages[len(req.Messages)-1].Content
		if call == 2 && strings.Contains(last, "at /choice: value must be one of 'tabs', 'spaces'") || call == 3 && strings.Contains(last, `new_answer takes {"data": …}`) {
			refused.Add(1)
		}
	}
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Tabs or spaces?", SessionID: "s1", AnswerSchema: json.RawMessage(choice)})
	require.Equal(t, string(coordination.Consensus), result.Status)
	require.Equal(t, coordination.ByAgreement, result.DecidedBy)
	require.Equal(t, "agent_b", result.Winner)
	require.JSONEq(t, `{"why": "They are short.", "choice": "tabs"}`, string(result.Data))
	require.Contains(t, result.Answer, `"choice": "tabs"`)
	require.Equal(t, int64(2), result.Rejections)
	require.Equal(t, int64(2), refused.Load())

	layout := artifact.InBucket("s1")
	for _, key := range []string{layout.Step("agent_b", 1, "answer.json"), layout.Final("agent_b", "answer.json")} {
		answer, err := artifact.ReadJSON[artifact.Answer](t.Context(), s.Store, key)
		require.NoError(t, err)
		require.JSONEq(t, string(result.Data), string(answer.Data))
	}
}

// A presenter's answer is data, too, which voters were shown to differ.
func TestSession_presentsData(t *testing.T) {
	t.Parallel()
	schema, err := llm.ReadDataSchema([]byte(choice))
	require.NoError(t, err)
	s := stagetest.New(t, map[string][]any{
		"agent_a": {give(`{"choice": "tabs"}`), stagetest.Vote("agent1"), stagetest.Text("tabs"), give(`{"choice": "tabs", "why": "Voted."}`)},
		"agent_b": {give(`{"choice": "spaces"}`), stagetest.Vote("agent1")},
	}, func(team *config.Team) {
		team.AnswerSchema, team.Orchestrator.FinalAnswerStrategy = schema, "winner_present"
	})
	prompt := s.Cast["agent_b"].Prompts()
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Tabs or spaces?", SessionID: "s1"})
	require.Contains(t, stagetest.User(prompt(2)), `- /choice: "tabs" (agent1.1) "spaces" (agent2.1)`)
	require.Equal(t, "agent1.final", *result.FinalLabel)
	require.JSONEq(t, `{"choice": "tabs", "why": "Voted."}`, string(result.Data))
}

// Without a schema a result has no data.
func TestSession_textsAreNoData(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, stagetest.Seed(), nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "?", SessionID: "s1", AnswerSchema: json.RawMessage("null")})
	require.Nil(t, result.Data)
}

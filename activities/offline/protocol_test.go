package offline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
)

// With divided work, an agent answers its part once and then stops.
func TestModel_answersAPartOnce(t *testing.T) {
	t.Parallel()
	a, b := offline.New("a"), offline.New("b")
	_, names, _ := ask(t, a, prompt("q"), newAnswer, stopCall)
	require.Equal(t, []string{"new_answer"}, names)
	_, names, _ = ask(t, a, prompt("q", "agent2.1", answerOf(t, b, "q")), newAnswer, stopCall)
	require.Equal(t, []string{"new_answer"}, names, "another agent's work does not count")

	shown := prompt("q", "agent1.1", answerOf(t, a, "q"), "agent2.1", answerOf(t, b, "q"))
	_, names, arguments := ask(t, a, shown, newAnswer, stopCall)
	require.Equal(t, []string{"stop"}, names)
	require.Equal(t, "complete", arguments[0]["status"])
	require.Contains(t, arguments[0]["summary"], "offline model")

	_, names, _ = ask(t, a, prompt("q"), stopCall)
	require.Equal(t, []string{"stop"}, names, "at its limit it stops")
}

// A presenter can only answer, and writes a new text.
func TestModel_answersAsPresenter(t *testing.T) {
	t.Parallel()
	a, b := offline.New("a"), offline.New("b")
	mine := answerOf(t, a, "q")
	_, names, arguments := ask(t, a, prompt("q", "agent1.1", mine, "agent2.1", answerOf(t, b, "q")), newAnswer)
	require.Equal(t, []string{"new_answer"}, names)
	require.NotEqual(t, mine, arguments[0]["content"])
	require.Contains(t, arguments[0]["content"], "no language model was asked")
	require.Contains(t, arguments[0]["content"], "after a look at 2 answers")
}

func TestModel_submitsAFinalAnswer(t *testing.T) {
	t.Parallel()
	message, names, _ := ask(t, offline.New("a"), prompt("q"), submit, restart, readFile)
	require.Equal(t, []string{"submit"}, names)
	require.JSONEq(t, `{}`, message.ToolCalls[0].Arguments)
}

// An evaluation scores every criterion of the prompt, and is converged.
func TestModel_evaluates(t *testing.T) {
	t.Parallel()
	reply, err := offline.New("a").Generate(t.Context(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Content: "# The criteria\n\n- E1 [primary]: It runs.\n- E2: It is short.\n"}},
		Tools:    []llm.Tool{{Name: "submit_evaluation"}, readFile},
	})
	require.NoError(t, err)
	require.Len(t, reply.Message.ToolCalls, 1)
	s, bad := quality.ParseEvaluation(reply.Message.ToolCalls[0].Arguments, 2)
	require.Nil(t, bad)
	require.Equal(t, coordination.Converged, s.Rating.Verdict)
	require.Empty(t, s.Faults)
}

func TestModel_votesIfItCannotAnswer(t *testing.T) {
	t.Parallel()
	c := offline.New("c")
	first := prompt("q", "agent1.1", "x", "agent2.1", "y", "agent3.1", answerOf(t, c, "q"))
	_, names, _ := ask(t, c, first, vote("agent1", "agent2", "agent3"))
	require.Equal(t, []string{"vote"}, names)
}

// An action that was rejected because of news is repeated in the light of it.
func TestModel_repeatsAnActionAfterNews(t *testing.T) {
	t.Parallel()
	m := offline.New("a")
	news := llm.Message{Role: llm.User, Content: prompt("", "agent2.2", "better")[1].Content}
	said := llm.Message{Role: llm.User, Content: "# Messages from people\n\nBe brief."}
	tools := []llm.Tool{newAnswer, vote("agent1", "agent2")}
	withdrawn := func(conversation []llm.Message, more llm.Message) []llm.Message {
		message, _, _ := ask(t, m, conversation, tools...)
		return append(conversation, message, message.ToolCalls[0].Result("not counted yet"), more)
	}

	shown := prompt("q", "agent1.1", "x", "agent2.1", "y")
	_, names, arguments := ask(t, m, shown, tools...)
	require.Equal(t, []string{"vote"}, names)
	require.Equal(t, "agent1", arguments[0]["agent_id"])

	_, names, arguments = ask(t, m, withdrawn(shown, news), tools...)
	require.Equal(t, []string{"vote"}, names)
	require.Equal(t, "agent2", arguments[0]["agent_id"], "the newest answer is preferred")

	_, names, arguments = ask(t, m, withdrawn(shown, said), tools...)
	require.Equal(t, []string{"vote"}, names)
	require.Equal(t, "agent1", arguments[0]["agent_id"], "the vote is unchanged")

	answered := withdrawn(prompt("q"), said)
	_, names, arguments = ask(t, m, answered, newAnswer)
	require.Equal(t, []string{"new_answer"}, names)
	require.Contains(t, arguments[0]["content"], "no language model was asked")
}

package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// weekdays is a judge of equality that finds two answers equal if both name Monday.
type weekdays struct{ asked atomic.Int64 }

func (w *weekdays) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	w.asked.Add(1)
	equal := strings.Count(req.Messages[len(req.Messages)-1].Content, "Monday") == 2
	reply := llm.Message{Role: llm.Assistant, Content: fmt.Sprintf(`{"equal": %t}`, equal)}
	return llm.Reply{Message: reply, Usage: llm.Usage{InputTokens: 10, OutputTokens: 1, ModelCalls: 1}}, nil
}

func newJudged(t *testing.T, scripts map[string][]any, early bool) (*stagetest.Stage, *weekdays) {
	t.Helper()
	s := stagetest.New(t, scripts, func(team *config.Team) {
		team.Orchestrator.Agree, team.Orchestrator.EarlyAgreement = config.JudgedEqual, early
		team.Orchestrator.AgreeJudge.Backend = &config.Backend{Model: "small"}
	})
	w := &weekdays{}
	s.Judge = w
	return s, w
}

// First answers that a judge finds equal decide without a vote, and its calls count.
func TestSession_aJudgeFindsEqualAnswers(t *testing.T) {
	t.Parallel()
	s, judge := newJudged(t, map[string][]any{
		"agent_a": {stagetest.Answer("Tuesday.")}, "agent_b": {stagetest.Answer("On Monday, I think.")}, "agent_c": {stagetest.Answer("It is Monday.")},
	}, true)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Which day?", SessionID: "s1"})
	require.Equal(t, string(coordination.Consensus), result.Status)
	require.Equal(t, coordination.ByAgreement, result.DecidedBy)
	require.Equal(t, "agent_b", result.Winner)
	require.Equal(t, 3+judge.asked.Load(), result.Cost.ModelCalls)
}

// Answers that end with the same line "ANSWER: …" are equal whatever the judge says.
func TestSession_equalLinesNeedNoJudge(t *testing.T) {
	t.Parallel()
	s, judge := newJudged(t, map[string][]any{
		"agent_a": {stagetest.Answer("By counting.\nANSWER: 4")}, "agent_b": {stagetest.Answer("A guess.\nANSWER: 5")}, "agent_c": {stagetest.Answer("2 + 2.\nANSWER: 4.")},
	}, true)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "2 + 2?", SessionID: "s1"})
	require.Equal(t, coordination.ByAgreement, result.DecidedBy)
	require.Equal(t, "agent_a", result.Winner)
	require.LessOrEqual(t, judge.asked.Load(), int64(2), "a different line is compared")
}

// Voters are told which answers a judge finds equal. Without an early decision the votes
// count as always.
func TestSession_votersSeeTheJudgement(t *testing.T) {
	t.Parallel()
	s, _ := newJudged(t, map[string][]any{
		"agent_a": {stagetest.Answer("Tuesday."), stagetest.Vote("agent2")}, "agent_b": {stagetest.Answer("On Monday, I think."), stagetest.Vote("agent2")},
		"agent_c": {stagetest.Answer("It is Monday."), stagetest.Vote("agent2")},
	}, false)
	var told atomic.Int64
	for _, p := range s.Cast {
		p.Saw = func(call int, req llm.Request) {
			if call == 2 && strings.Contains(req.Messages[len(req.Messages)-1].Content, "agent2.1, agent3.1: the same answer, given by 2 agents") {
				told.Add(1)
			}
		}
	}
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Which day?", SessionID: "s1"})
	require.Equal(t, string(coordination.Consensus), result.Status)
	require.Equal(t, "agent_b", result.Winner)
	require.EqualValues(t, 3, told.Load())
}

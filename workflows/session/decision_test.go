package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	sessionacts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

func TestSession_ThreeRounds(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, stagetest.Seed(), nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_c", result.Winner)
	require.Equal(t, "agent3.2", result.WinnerLabel)
	require.Equal(t, "C, improved.", result.Answer)
	require.Equal(t, map[string]int{"agent_c": 3}, result.Votes)
	require.Equal(t, 3, result.Rounds)
	require.Equal(t, int64(9), result.Cost.ModelCalls)

	state := stagetest.State[sessionacts.State](t, s)
	require.Equal(t, coordination.PhaseDone, state.Phase)
	require.Equal(t, "consensus", state.Status)
	require.Equal(t, "Who?", state.Query)
	status, err := artifact.ReadJSON[sessionacts.State](t.Context(), s.Store, "sessions/s1/status.json")
	require.NoError(t, err)
	require.Equal(t, state, status, "status.json is the answer to the query")

	events, err := s.Store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	require.Equal(t, state.Events, strings.Count(string(events), "\n"), "every event is recorded once")
	final, err := artifact.ReadJSON[artifact.Answer](t.Context(), s.Store, "sessions/s1/final/agent_c/answer.json")
	require.NoError(t, err)
	require.Equal(t, "agent3.final", final.Label)
	for seq := 1; seq <= 9; seq++ {
		there, err := s.Store.Exists(t.Context(), artifact.InBucket("s1").Ledger(seq))
		require.NoError(t, err)
		require.True(t, there, "ledger entry %d", seq)
	}
	stagetest.RequireTimes(t, s.Store, artifact.InBucket("s1"))
}

func TestSession_SplitFails(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent2")},
	}, func(team *config.Team) { team.Orchestrator.OnSplit = "fail" })
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "failed", result.Status)
	require.Equal(t, "Split", result.Error.Type)
	require.Nil(t, result.AnswerPath)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 1}, result.Votes)
}

func TestSession_FailedAgent(t *testing.T) {
	t.Parallel()
	refused := &llm.Error{Kind: llm.AuthFailed, Message: "the key was refused"}
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {refused},
	}, nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "agent_a", result.Winner)
	b := stagetest.State[sessionacts.State](t, s).Agents[1]
	require.Equal(t, "failed", b.Status)
	require.Equal(t, &coordination.Failure{Type: "AuthFailed", Message: refused.Error()}, b.Error)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, "sessions/s1/agents/agent_b/last_action.json")
	require.NoError(t, err)
	require.Equal(t, "none", last.Action)
	require.Equal(t, "AuthFailed", last.Error.Type)
}

func TestSession_NobodyAnswers(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{"agent_a": {&llm.Error{Kind: llm.AuthFailed, Message: "the key was refused"}}}, nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "failed", result.Status)
	require.Contains(t, result.Error.Message, "agent_a: AuthFailed")
}

func TestSession_TimeUp(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Never()},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	}, func(team *config.Team) { team.Timeouts.OrchestratorTimeoutSeconds = 10 }) // real seconds, as activities run
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "timeout", result.Status)
	require.NotEmpty(t, result.Winner)
}

func TestSession_FinishDecidesNow(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Block{Reached: func() { s.SignalWorkflow(workflows.FinishSignal, nil) }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")},
	}, nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "finished", result.Status)
	require.NotEmpty(t, result.Winner)
}

func TestSession_CancelKeepsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Block{Reached: func() { s.CancelWorkflow() }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	}, nil)
	s.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.True(t, s.IsWorkflowCompleted())
	var ended *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &ended)
	var result session.Result
	require.True(t, workflows.CanceledResult(ended, &result))
	require.Equal(t, "cancelled", result.Status)
	require.Empty(t, result.Winner)
	require.GreaterOrEqual(t, result.Cost.ModelCalls, int64(2), "both answers were paid for")

	status, err := artifact.ReadJSON[sessionacts.State](t.Context(), s.Store, "sessions/s1/status.json")
	require.NoError(t, err)
	answer, err := s.QueryWorkflow(workflows.StateQuery)
	require.NoError(t, err)
	var state sessionacts.State
	require.NoError(t, answer.Get(&state))
	for _, told := range []sessionacts.State{status, state} {
		require.Equal(t, "cancelled", told.Status)
		require.Equal(t, coordination.PhaseDone, told.Phase)
		require.Equal(t, result.Cost, told.Cost)
		for _, a := range told.Agents {
			require.False(t, a.Running, a.ID)
		}
	}
	for seq := 1; seq <= 2; seq++ {
		there, err := s.Store.Exists(t.Context(), artifact.InBucket("s1").Ledger(seq))
		require.NoError(t, err)
		require.True(t, there)
	}
}

// Faults cost retries; after three attempts without progress the step fails. Rate limits
// and outages are not counted.
func TestSession_AttemptsWithoutProgress(t *testing.T) {
	t.Parallel()
	bad := errors.New("a bug")
	away := &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "overloaded"}
	limited := &llm.Error{Kind: llm.RateLimited, Message: "slow down", RetryAfter: time.Minute}
	s := stagetest.New(t, map[string][]any{
		"agent_a": {limited, limited, away, away, away, bad, bad, stagetest.Answer("A."), stagetest.Vote("agent1")},
	}, nil)
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?"})
	require.Equal(t, "consensus", result.Status, "%v", result.Error)

	s = stagetest.New(t, map[string][]any{"agent_a": {bad, bad, bad, stagetest.Answer("too late")}}, nil)
	result = stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Who?"})
	require.Equal(t, "failed", result.Status)
	require.Contains(t, result.Error.Message, "Internal: 3 attempts without progress")
	require.Equal(t, 3, s.Cast["agent_a"].Asked)
}

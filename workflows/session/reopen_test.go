package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/activities/attempt"
	sessionacts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	sessionflow "conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// journals returns how many objects of journals a session has.
func journals(t *testing.T, store artifact.Store, session string) (n int) {
	t.Helper()
	for _, err := range store.List(t.Context(), artifact.InBucket(session).File("journal/")) {
		require.NoError(t, err)
		n++
	}
	return n
}

// A session that failed goes on in a new run with everything that was paid for.
func TestSession_ReopenedAfterFailure(t *testing.T) {
	t.Parallel()
	first := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.WriteFile("1"), stagetest.RefusedKey},
		"agent_b": {stagetest.WriteFile("1"), stagetest.RefusedKey},
	}, nil)
	result := stagetest.Play[sessionflow.Result](t, first, sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "failed", result.Status)
	require.EqualValues(t, 2, result.Cost.ModelCalls)
	require.NotZero(t, journals(t, first.Store, "s1"), "the failed step can be resumed")

	next := stagetest.NewOn(t, first.Store, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")},
	}, nil)
	next.Cast["agent_b"].Saw = func(call int, req llm.Request) {
		wrote := strings.Contains(string(mustJSON(t, req.Messages)), "write_file")
		require.Equal(t, call == 1, wrote, "the conversation goes on")
	}
	result = stagetest.Play[sessionflow.Result](t, next, sessionflow.Type, sessionflow.Input{Resume: true}) // the record of the workflow names the session
	require.Equal(t, "s1", result.SessionID)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "A.", result.Answer)
	require.EqualValues(t, 6, result.Cost.ModelCalls, "no reply was paid twice")
	require.Equal(t, "Who?", stagetest.State[sessionacts.State](t, next).Query)
	require.Zero(t, journals(t, first.Store, "s1"), "a decision stands")

	var actions []coordination.Action
	for e, err := range session.LedgerOf(first.Store, artifact.InBucket("s1")).From(t.Context(), 1) {
		require.NoError(t, err)
		actions = append(actions, e.Action)
	}
	require.Equal(t, []coordination.Action{session.Resumed, "new_answer", "new_answer", "vote", "vote"}, actions)
	events, err := first.Store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(events), `"kind":"reopened"`)
	stagetest.RequireTimes(t, first.Store, artifact.InBucket("s1"))

	acts := sessionacts.Activities{Process: attempt.Process{Store: first.Store}}
	err = acts.CanReopen(t.Context(), sessionacts.ReopenInput{Session: "s1", WorkflowID: "default-test-workflow-id"})
	require.ErrorContains(t, err, "session s1 cannot go on: the session has decided, consensus: agent_a (agent1.1); a decision stands")
}

// Resuming a decided session returns the same result.
func TestSession_ReopenedAfterDecision(t *testing.T) {
	t.Parallel()
	first := stagetest.New(t, stagetest.Seed(), nil)
	result := stagetest.Play[sessionflow.Result](t, first, sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"})
	next := stagetest.NewOn(t, first.Store, map[string][]any{"agent_a": nil, "agent_b": nil, "agent_c": nil}, nil)
	require.Equal(t, result, stagetest.Play[sessionflow.Result](t, next, sessionflow.Type, sessionflow.Input{Resume: true, SessionID: "s1"}))
	require.Equal(t, "consensus", stagetest.State[sessionacts.State](t, next).Status)
	later, err := session.SealedAfter(t.Context(), first.Store, artifact.InBucket("s1"), 0)
	require.NoError(t, err)
	require.Empty(t, later, "nothing goes on")
}

// A reopened cancelled session resumes the steps that were running.
func TestSession_ReopenedAfterCancellation(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.WriteFile("1"), stagetest.Block{Reached: func() { s.CancelWorkflow() }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	}, nil)
	s.ExecuteWorkflow(sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"})
	var ended *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &ended)
	layout := artifact.InBucket("s1")
	state, err := artifact.ReadJSON[activities.SavedState[sessionacts.Saved]](t.Context(), s.Store, layout.SavedState("default-test-run-id"))
	require.NoError(t, err)
	require.NoError(t, state.Saved.Core.Refuse(coordination.Reopened{}))

	next := stagetest.NewOn(t, s.Store, map[string][]any{"agent_a": {stagetest.Vote("agent2")}, "agent_b": {stagetest.Vote("agent2")}}, nil)
	result := stagetest.Play[sessionflow.Result](t, next, sessionflow.Type, sessionflow.Input{Resume: true, SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_b", result.Winner)
	require.Equal(t, []int{1, 1}, []int{next.Cast["agent_a"].Asked, next.Cast["agent_b"].Asked}, "no reply is paid twice")
}

// An undecided session goes on: with a message, which every agent reads before it votes again, or
// with one more vote.
func TestSession_ReopenedUndecided(t *testing.T) {
	t.Parallel()
	divided := map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")}, "agent_b": {stagetest.WriteFile("1"), stagetest.Answer("B."), stagetest.Vote("agent1")},
		"agent_c": {stagetest.Answer("C."), stagetest.Vote("agent3")},
	}
	sure := func(team *config.Team) { team.Orchestrator.ActWhen.MinSupport = new(0.7) }
	for name, in := range map[string]sessionflow.Input{
		"with a message":       {Resume: true, SessionID: "s1", Text: "It is for a team of forty."},
		"with another vote":    {Resume: true, SessionID: "s1"},
		"with a word to one":   {Resume: true, SessionID: "s1", Text: "Why?", Agent: "agent_c"},
		"without its own name": {Resume: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := stagetest.New(t, divided, sure)
			result := stagetest.Play[sessionflow.Result](t, first, sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"})
			require.Equal(t, "undecided", result.Status)
			require.Equal(t, "A.", result.Answer)
			require.NotZero(t, journals(t, first.Store, "s1"), "it may go on")
			acts := sessionacts.Activities{Process: attempt.Process{Store: first.Store}}
			require.NoError(t, acts.CanReopen(t.Context(), sessionacts.ReopenInput{
				Session: "s1", WorkflowID: "default-test-workflow-id", Agent: in.Agent, Text: in.Text,
			}))

			scripts := map[string][]any{"agent_c": {stagetest.Vote("agent3")}}
			if in.Agent == "" { // otherwise only that agent has news
				scripts["agent_a"], scripts["agent_b"] = []any{stagetest.Vote("agent3")}, []any{stagetest.Vote("agent3")}
			} else {
				scripts["agent_a"], scripts["agent_b"], scripts["agent_c"] = nil, nil, []any{stagetest.Vote("agent1")}
			}
			next := stagetest.NewOn(t, first.Store, scripts, sure)
			heard := false
			next.Cast["agent_c"].Saw = func(_ int, req llm.Request) {
				heard = strings.Contains(string(mustJSON(t, req.Messages)), in.Text)
			}
			again := stagetest.Play[sessionflow.Result](t, next, sessionflow.Type, in)
			require.Equal(t, "consensus", again.Status)
			require.True(t, heard)
			require.Equal(t, map[bool]string{true: "C.", false: "A."}[in.Agent == ""], again.Answer)
			var finals []string
			for key, err := range first.Store.List(t.Context(), "sessions/s1/final/") {
				require.NoError(t, err)
				finals = append(finals, key)
			}
			require.Equal(t, []string{"sessions/s1/final/" + again.Winner + "/answer.json"}, finals)
			require.Equal(t, again.Cost.ModelCalls, result.Cost.ModelCalls+int64(next.Cast["agent_a"].Asked+next.Cast["agent_b"].Asked+next.Cast["agent_c"].Asked))
		})
	}
}

// If every agent has failed, the session has failed. Its result has the best text all the same.
func TestSession_AllFailed(t *testing.T) {
	t.Parallel()
	first := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.RefusedKey},
		"agent_b": {stagetest.Answer("B."), stagetest.RefusedKey},
	}, nil)
	result := stagetest.Play[sessionflow.Result](t, first, sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, "failed", result.Status)
	require.Empty(t, result.Winner)
	require.Empty(t, result.DecidedBy)
	require.Nil(t, result.Support)
	require.Contains(t, []string{"A.", "B."}, result.Answer)
	require.NotNil(t, result.AnswerPath)
	require.Equal(t, "AllFailed", result.Error.Type)
	require.Contains(t, result.Error.Message, "agent_a, agent_b: ")
	require.Nil(t, result.PresentedBy)
	require.Nil(t, stagetest.State[sessionacts.State](t, first).Final, "nothing is applied or continued without a decision")

	next := stagetest.NewOn(t, first.Store, map[string][]any{"agent_a": {stagetest.Vote("agent1")}, "agent_b": {stagetest.Vote("agent1")}}, nil)
	result = stagetest.Play[sessionflow.Result](t, next, sessionflow.Type, sessionflow.Input{Resume: true, SessionID: "s1"})
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "A.", result.Answer)
}

func TestSession_ResumeRefused(t *testing.T) {
	t.Parallel()
	split := map[string][]any{"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")}, "agent_b": {stagetest.Answer("B."), stagetest.Vote("agent2")}}
	fail := func(team *config.Team) { team.Orchestrator.OnSplit = "fail" }
	first := stagetest.New(t, split, fail)
	require.Equal(t, "failed", stagetest.Play[sessionflow.Result](t, first, sessionflow.Type, sessionflow.Input{Query: "Who?", SessionID: "s1"}).Status)
	for name, test := range map[string]struct {
		in  sessionflow.Input
		why string
	}{
		"nothing to go on with": {sessionflow.Input{Resume: true, SessionID: "s2"}, "there is no session s2 to go on with: give a query instead of resume"},
		"it would fail again":   {sessionflow.Input{Resume: true, SessionID: "s1"}, "session s1 cannot go on: the session would end again at once, failed: the votes are split"},
		"no such agent":         {sessionflow.Input{Resume: true, SessionID: "s1", Agent: "agent_x"}, `the team has no agent "agent_x"`},
		"with a query":          {sessionflow.Input{Resume: true, Query: "Who?"}, "resume goes on with the session as it was started"},
		"an empty message":      {sessionflow.Input{Resume: true, SessionID: "s1", Text: " \n"}, "session s1 cannot go on: the text is empty"},
		"a message to nobody":   {sessionflow.Input{Resume: true, SessionID: "s1", Text: "Why?", Agent: "agent_x"}, `the team has no agent "agent_x"`},
		"a message alone":       {sessionflow.Input{Query: "Who?", Text: "Why?"}, "text is a message to a session that resume goes on with"},
		"an agent alone":        {sessionflow.Input{Query: "Who?", Agent: "agent_a"}, "agent limits the retry of resume"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stagetest.NewOn(t, first.Store, split, fail)
			s.ExecuteWorkflow(sessionflow.Type, test.in)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, s.GetWorkflowError(), &refused)
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Error(), test.why)
			require.Zero(t, s.Cast["agent_a"].Asked)
		})
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

package session

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team"
)

// A late record of the run that ended finds the seal and stops; the new run goes on after it.
func TestRecord_sealedLedger(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	old := team.Entry{Run: "old", Accepted: accepted(1, "a")}
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Ledger(1), old))
	for range 2 { // a repetition finds its own seal
		seal, err := team.Seal(t.Context(), b.store, layout, "new", time.Unix(60, 0))
		require.NoError(t, err)
		require.Equal(t, 2, seal)
	}
	require.Equal(t, team.Entry{Run: "new", From: "old", Accepted: coordination.Accepted{Action: team.Resumed, Time: time.Unix(60, 0).UTC()}}, b.ledger(2))

	_, err := b.ExecuteActivity("Record", RecordInput{Session: "s1", Entries: []coordination.Accepted{accepted(2, "late")}})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "Superseded", refused.Type())
	require.True(t, refused.NonRetryable())

	_, err = b.ExecuteActivity("Record", RecordInput{Session: "s1", Status: State{Status: "late"}})
	require.ErrorAs(t, err, &refused, "without entries, too")
	require.Equal(t, "Superseded", refused.Type())
	there, err := b.store.Exists(t.Context(), layout.File("status.json"))
	require.NoError(t, err)
	require.False(t, there)

	b.record(RecordInput{Seal: 2, Entries: []coordination.Accepted{accepted(2, "b")}})
	b.record(RecordInput{Seal: 2, Entries: []coordination.Accepted{accepted(2, "b"), accepted(3, "c")}})
	require.Equal(t, "b", b.ledger(3).Agent)
	require.Equal(t, "c", b.ledger(4).Agent)
	entries, err := team.Ledger(t.Context(), b.store, layout)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// Journals stay at the end of a session that can be reopened.
func TestRecord_keepsJournalsOfAFailedSession(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	key := artifact.InBucket("s1").Journal("run-l1", 1)
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, key, "entry"))
	s := coordination.New(coordination.Config{Agents: []string{"a"}})
	s.Drain()
	s.Step(coordination.Failed{End: coordination.End{Launch: "l1"}})
	s.Drain()
	require.True(t, s.Done())
	b.record(RecordInput{Over: true, Saved: &Saved{Core: s, SecondsLeft: 5}})
	there, err := b.store.Exists(t.Context(), key)
	require.NoError(t, err)
	require.True(t, there)
	state, err := artifact.ReadJSON[savedState](t.Context(), b.store, artifact.InBucket("s1").SavedState("default-test-run-id"))
	require.NoError(t, err)
	require.Equal(t, 5, state.SecondsLeft)
	require.Equal(t, s.Decision(), state.Core.Decision())
}

// The store of a run that was cut off has actions on the ledger and others, steps that ended
// without an action, and an open step.
func TestRecord_read(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	used := llm.Usage{ModelCalls: 1}
	put := func(key string, document any) {
		t.Helper()
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, key, document))
	}
	claim := func(agent string, number int, token string, seen map[string]int) {
		put(layout.Step(agent, number, "step.json"), artifact.Claim{Token: token, SeenSteps: seen, StartedAt: began})
	}
	commit := func(agent string, number int, kind coordination.Action, payload string, seen map[string]int) {
		claim(agent, number, "old-x", nil)
		put(layout.Step(agent, number, "action.json"), artifact.Commit{
			Token: "old-x", Kind: string(kind), Payload: []byte(payload), SeenSteps: seen, Usage: used, Timestamp: began.Add(time.Duration(number) * time.Minute),
		})
	}
	put(layout.Ledger(1), team.Entry{Run: "old", Accepted: accepted(1, "a")})
	put(layout.Ledger(2), team.Entry{Run: "old", Accepted: coordination.Accepted{Seq: 2, Action: coordination.Say, Message: 1, Text: "brief"}})
	commit("a", 1, coordination.NewAnswer, `{"answer": "A", "label": "agent1.1"}`, nil)
	claim("a", 2, "old-l3", nil) // ended without an action
	commit("a", 3, coordination.Vote, `{"target": "a", "target_label": "agent1.1", "reason": "good"}`, map[string]int{"a": 1})
	commit("b", 1, coordination.NewAnswer, `{"answer": "final", "label": "agent2.final"}`, nil)
	claim("b", 2, "old-l4", map[string]int{"a": 1})
	put(layout.Journal("old-l4", 1), map[string]any{"attempt": 1})

	book, err := team.ReadBook(t.Context(), b.store, layout, "")
	require.NoError(t, err)
	lost, err := (&record{store: b.store, layout: layout, book: book}).read(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Len(t, lost.Ledger, 2)
	answered := lost.Ledger[0].Event.(coordination.Answered)
	require.Equal(t, coordination.End{Step: 1, Usage: used}, answered.End)
	require.NotEmpty(t, answered.Digest, "equal answers pool after reopening, too")
	require.Nil(t, lost.Ledger[1].Event)
	require.Equal(t, []coordination.Recorded{{
		Accepted: coordination.Accepted{Agent: "a", Step: 3, Action: coordination.Vote},
		Event: coordination.Voted{
			End: coordination.End{Step: 3, Usage: used}, Target: "a", TargetLabel: "agent1.1", Reason: "good", Seen: []coordination.Seen{{Agent: "a", Step: 1}},
		},
	}}, lost.Lacking)
	require.Equal(t, []coordination.StepOf{
		{Agent: "a", End: coordination.End{Step: 2}},
		{Agent: "b", End: coordination.End{Step: 1, Usage: used}},
		{Agent: "b", End: coordination.End{Step: 2}},
	}, lost.Ended)
	require.Equal(t, []coordination.OpenStep{{Agent: "b", Step: 2, Token: "old-l4", Seen: []coordination.Seen{{Agent: "a", Step: 1}}}}, lost.Open)
}

// The usage of an open step includes that of the steps that it resumed, each counted once.
func TestRecord_readResumedSteps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uncounted   bool
		ended, open int64
	}{"counted by an event": {false, 1, 1}, "uncounted": {true, 0, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			layout := artifact.InBucket("s1")
			for n, c := range []artifact.Claim{{Token: "old-l1"}, {Token: "old-l2", ResumeFrom: "old-l1", Uncounted: test.uncounted}, {Token: "old-l3", ResumeFrom: "old-l2"}} {
				require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Step("a", n+1, "step.json"), c))
				if n == 2 {
					break // it never ran
				}
				reply := []step.Line{{Entry: loop.Entry{Kind: loop.Reply, Usage: &llm.Usage{ModelCalls: 1}}}}
				require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Journal(c.Token, 1), map[string]any{"attempt": 1, "lines": reply}))
			}
			lost, err := (&record{store: b.store, layout: layout}).read(t.Context(), []string{"a"})
			require.NoError(t, err)
			require.Equal(t, []coordination.OpenStep{{Agent: "a", Step: 2, Token: "old-l2", Usage: llm.Usage{ModelCalls: test.open}}}, lost.Open)
			ended := llm.Usage{}
			for _, e := range lost.Ended {
				ended = ended.Add(e.Usage)
			}
			require.Equal(t, test.ended, ended.ModelCalls)
		})
	}
}

// An evaluation without an outcome is repeated, and its usage counts nevertheless.
func TestRecord_readEvaluations(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	put := func(dir, token string, c *artifact.Commit) {
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, dir+"step.json", artifact.Claim{Token: token}))
		reply := []step.Line{{Entry: loop.Entry{Kind: loop.Reply, Usage: &llm.Usage{ModelCalls: 1, InputTokens: 7}}}}
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Journal(token, 1), map[string]any{"attempt": 1, "lines": reply}))
		if c != nil {
			require.NoError(t, artifact.CreateJSON(t.Context(), b.store, dir+"action.json", c))
		}
	}
	evaluator := layout.Step("a", 2, "evaluator/")
	put(evaluator, "old-l1", nil)
	put(evaluator+"002/", "old-l2", &artifact.Commit{Token: "old-l2", Kind: "vote", Payload: []byte(`{}`), Usage: llm.Usage{ModelCalls: 1, InputTokens: 9}})
	lost, err := (&record{store: b.store, layout: layout}).read(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, []coordination.StepOf{
		{Agent: "a", End: coordination.End{Usage: llm.Usage{ModelCalls: 1, InputTokens: 7}}},
		{Agent: "a", End: coordination.End{Usage: llm.Usage{ModelCalls: 1, InputTokens: 9}}},
	}, lost.Ended)
	require.Empty(t, lost.Open, "it is no step of the agent's own")
}

func TestCanReopen_belongsToTheWorkflow(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	a := &Activities{Process: attempt.Process{Store: b.store}}
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s2", WorkflowID: "s2"}), "there is no session s2 to go on with")
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s1", WorkflowID: "thief"}), "resume it under that ID")

	require.NoError(t, artifact.PutJSON(t.Context(), b.store, artifact.InBucket("s1").File(artifact.Deleted), struct{}{}))
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s1", WorkflowID: "s1"}), "session s1 is being deleted")
}

// The calls of a judge of equality count once after a run that was cut off, with the answer that
// they were about.
func TestRecord_readJudgedAnswers(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	for n, agent := range []string{"a", "b"} { // equal answers: the judge was asked about the first one
		token := "old-l" + agent
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Step(agent, 1, "step.json"), artifact.Claim{Token: token}))
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Step(agent, 1, "action.json"), artifact.Commit{
			Token: token, Kind: string(coordination.NewAnswer), Payload: []byte(`{"answer": "Monday.", "label": "agent` + strconv.Itoa(n+1) + `.1"}`),
			Usage: llm.Usage{ModelCalls: 1, InputTokens: 100},
		}))
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Ledger(n+1), team.Entry{Run: "old", Accepted: accepted(n+1, agent)}))
	}
	read := func() []llm.Usage {
		t.Helper()
		book, err := team.ReadBook(t.Context(), b.store, layout, "")
		require.NoError(t, err)
		lost, err := (&record{store: b.store, layout: layout, book: book}).read(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		var used []llm.Usage
		for _, e := range lost.Ledger {
			used = append(used, e.Event.(coordination.Answered).Usage)
		}
		return used
	}
	step := llm.Usage{ModelCalls: 1, InputTokens: 100}
	require.Equal(t, []llm.Usage{step, step}, read(), "without a judge")

	commit, err := artifact.ReadJSON[artifact.Commit](t.Context(), b.store, layout.Step("a", 1, "action.json"))
	require.NoError(t, err)
	outcome, err := team.ReadOutcome(commit)
	require.NoError(t, err)
	judged := team.Class{Class: "class 1", Token: "old-la", Usage: llm.Usage{ModelCalls: 2, InputTokens: 30}}
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, team.ClassKey(layout, outcome.Digest), judged))
	require.Equal(t, []llm.Usage{step.Add(judged.Usage), step}, read())
}

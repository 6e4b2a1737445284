package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities/attempt"
	"conclave/activities/workertest"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/step"
)

// books is a session's directory with the activity Record.
type books struct {
	*testsuite.TestActivityEnvironment
	*Activities
	t     *testing.T
	store *artifact.Dir
}

func newBooks(t *testing.T) *books {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	require.NoError(t, artifact.CreateJSON(t.Context(), store, "sessions/s1/session.json", artifact.Session{Query: "Why?"}))
	b := &books{t: t, store: store}
	var suite testsuite.WorkflowTestSuite
	b.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	b.SetTestTimeout(2 * time.Minute)
	b.Activities = &Activities{Process: attempt.Process{Equipment: &workertest.Worker{}, Server: &workertest.Worker{}, Store: store, Now: time.Now}}
	b.RegisterBookkeeping(b.TestActivityEnvironment)
	return b
}

// A record lets the steps that start with it come first, unless running steps wait for it or the
// session is over.
func TestRecord_yields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in     RecordInput
		yields bool
	}{
		"a wave":       {RecordInput{Entries: []coordination.Accepted{accepted(1, "agent_a")}}, true},
		"a pause":      {RecordInput{Events: []coordination.Entry{event(1)}}, true},
		"a message":    {RecordInput{Entries: []coordination.Accepted{accepted(1, "agent_a"), {Seq: 2, Action: coordination.Say, Message: 1}}}, false},
		"a result":     {RecordInput{Results: []coordination.ToolResult{{ID: "c1", Content: "42"}}}, false},
		"the last one": {RecordInput{Over: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			yielded := false
			b.Yield = func(ctx context.Context) {
				_, err := b.store.Get(ctx, artifact.InBucket("s1").File("status.json"))
				yielded = errors.Is(err, artifact.ErrNotFound)
			}
			b.record(tt.in)
			require.Equal(t, tt.yields, yielded)
		})
	}
}

func (b *books) record(in RecordInput) {
	b.t.Helper()
	require.NoError(b.t, b.tryRecord(in))
}

// tryRecord records a session that goes on unless the input has another state.
func (b *books) tryRecord(in RecordInput) error {
	in.Session = "s1"
	if in.Saved == nil {
		in.Saved = &Saved{Core: coordination.New(coordination.Config{Agents: []string{"a"}})}
	}
	_, err := b.ExecuteActivity("Record", in)
	return err
}

func (b *books) ledger(seq int) session.Entry {
	b.t.Helper()
	e, err := artifact.ReadJSON[session.Entry](b.t.Context(), b.store, artifact.InBucket("s1").Ledger(seq))
	require.NoError(b.t, err)
	return e
}

func accepted(seq int, agent string) coordination.Accepted {
	return coordination.Accepted{Seq: seq, Agent: agent, Step: 1, Action: coordination.NewAnswer, Label: agent}
}

func event(seq int) coordination.Entry {
	return coordination.Entry{Seq: seq, Kind: "answer", Text: "answered"}
}

// Later records of a process read neither the events that it has written nor the ledger after an
// entry that it has created.
func TestRecord_readsNothingBack(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	seen := &asked{Store: b.store, reads: map[string]int{}}
	a := &Activities{Process: attempt.Process{Equipment: &workertest.Worker{}, Store: seen, Now: time.Now}}
	var suite testsuite.WorkflowTestSuite
	b.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	b.SetTestTimeout(2 * time.Minute)
	a.RegisterBookkeeping(b)
	for seq := 1; seq <= 3; seq++ {
		b.record(RecordInput{Entries: []coordination.Accepted{accepted(seq, "a")}, Events: []coordination.Entry{event(seq)}, Status: State{SessionID: "s1"}})
	}
	require.Equal(t, map[string]int{"sessions/s1/session.json": 1}, seen.reads)
	all, err := b.store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(all), "\n"))

	b.record(RecordInput{Status: State{SessionID: "s1"}, Seal: 3})
	require.Equal(t, 1, seen.reads["sessions/s1/ledger/000004.json"], "without an entry a seal is looked for")
}

// A Record whose completion was lost is repeated without effect.
func TestRecord_repetitionChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	in := RecordInput{
		Entries: []coordination.Accepted{accepted(1, "a"), accepted(2, "b")},
		Events:  []coordination.Entry{event(1), event(2)},
		Status:  State{SessionID: "s1", Status: "running"},
	}
	b.record(in)
	first, err := b.store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	b.record(in)
	in.Entries = []coordination.Accepted{accepted(3, "a")}
	in.Events = []coordination.Entry{event(2), event(3)}
	b.record(in)

	all, err := b.store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), string(first)))
	require.Equal(t, 3, strings.Count(string(all), "\n"))
	require.Equal(t, "b", b.ledger(2).Agent)
	require.Equal(t, "a", b.ledger(3).Agent)
	there, err := b.store.Exists(t.Context(), artifact.InBucket("s1").Ledger(4))
	require.NoError(t, err)
	require.False(t, there)

	status, err := artifact.ReadJSON[State](t.Context(), b.store, "sessions/s1/status.json")
	require.NoError(t, err)
	require.Equal(t, "Why?", status.Query, "the query comes from session.json, not through the history")
}

// After a reset the new run's entries follow the old run's; nothing is
// overwritten.
func TestRecord_anotherRunContinues(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	old := session.Entry{Run: "an-earlier-run", Accepted: accepted(1, "old")}
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, artifact.InBucket("s1").Ledger(1), old))
	b.record(RecordInput{Events: []coordination.Entry{event(1), event(2), event(3)}})
	b.record(RecordInput{Entries: []coordination.Accepted{accepted(1, "new")}, Events: []coordination.Entry{event(2)}})
	b.record(RecordInput{Entries: []coordination.Accepted{accepted(1, "new")}, Events: []coordination.Entry{event(2)}})
	events, err := b.store.Get(t.Context(), "sessions/s1/events.jsonl")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(events), "\n"), "the events that the reset undid are gone:\n%s", events)
	require.Equal(t, old, b.ledger(1))
	require.Equal(t, "new", b.ledger(2).Agent)
	require.Equal(t, 1, b.ledger(2).Seq, "its number in its own run")
	there, err := b.store.Exists(t.Context(), artifact.InBucket("s1").Ledger(3))
	require.NoError(t, err)
	require.False(t, there)
}

// Human messages are written where running steps read them.
func TestRecord_writesMessages(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	say := coordination.Accepted{Seq: 1, Agent: "agent_b", Action: coordination.Say, Message: 1, Text: "Be brief."}
	all := coordination.Accepted{Seq: 3, Action: coordination.Say, Message: 2, Text: "And be right."}
	b.record(RecordInput{Entries: []coordination.Accepted{say, accepted(2, "a"), all}})
	for number, want := range map[int]coordination.Accepted{1: say, 2: all} {
		m, err := artifact.ReadJSON[step.Message](t.Context(), b.store, artifact.InBucket("s1").Message(number))
		require.NoError(t, err)
		require.False(t, m.SaidAt.IsZero())
		require.Equal(t, step.Message{Number: number, Agent: want.Agent, Text: want.Text, SaidAt: m.SaidAt}, m)
		require.Equal(t, want, b.ledger(want.Seq).Accepted)
	}
	there, err := b.store.Exists(t.Context(), "sessions/s1/messages/001.json")
	require.NoError(t, err)
	require.True(t, there)
}

func TestRecord_deletesJournalsAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	key := artifact.InBucket("s1").Journal("run-l1", 1)
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, key, "entry"))
	decided := coordination.New(coordination.Config{Agents: []string{"a"}})
	decided.Drain()
	decided.Step(coordination.Answered{End: coordination.End{Launch: "l1", Step: 1}})
	decided.Step(coordination.Finish{})
	decided.Drain()
	require.True(t, decided.Decision().Stands())
	for _, over := range []bool{false, true} {
		b.record(RecordInput{Over: over, Saved: &Saved{Core: decided}})
		there, err := b.store.Exists(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, !over, there)
	}
}

// The last record writes the last_action.json of each agent's newest action. It keeps that of a later step without one.
func TestRecord_writesLastActions(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	commit := func(agent string, number int, kind coordination.Action, payload string) {
		require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Step(agent, number, "action.json"), artifact.Commit{Kind: string(kind), Payload: json.RawMessage(payload)}))
	}
	answer := `{"answer": "A", "label": "agent1.1"}`
	commit("a", 1, coordination.NewAnswer, answer)
	commit("a", 2, coordination.Vote, `{"target": "b", "reason": "Right."}`)
	commit("b", 1, coordination.NewAnswer, answer)
	commit("c", 1, coordination.NewAnswer, answer)
	failed := artifact.LastAction{AgentID: "b", Action: "none", StepNumber: 2, Error: &artifact.Error{Type: "NoAction"}}
	require.NoError(t, artifact.PutJSON(t.Context(), b.store, layout.Agent("b", "last_action.json"), failed))
	core := coordination.New(coordination.Config{Agents: []string{"a", "b", "c", "d"}})
	core.Drain()
	for _, launch := range []coordination.LaunchID{"l1", "l2", "l3"} {
		core.Step(coordination.Answered{End: coordination.End{Launch: launch, Step: 1}})
	}
	core.Step(coordination.Failed{End: coordination.End{Launch: "l4"}, Cause: coordination.Failure{Type: "NoAction"}})
	core.Drain()
	core.Step(coordination.Voted{End: coordination.End{Launch: "l5", Step: 2}, Choice: coordination.Choice{Target: "b"}})
	core.Step(coordination.Failed{End: coordination.End{Launch: "l6", Step: 2}, Cause: coordination.Failure{Type: "NoAction"}})
	core.Step(coordination.Failed{End: coordination.End{Launch: "l7", Step: 2}, Cause: coordination.Failure{Type: "NoAction"}})
	core.Step(coordination.Finish{})
	core.Drain()
	b.record(RecordInput{Saved: &Saved{Core: core}})
	there, err := b.store.Exists(t.Context(), layout.Agent("a", "last_action.json"))
	require.NoError(t, err)
	require.False(t, there, "the session goes on")

	b.record(RecordInput{Over: true, Saved: &Saved{Core: core}})
	for agent, want := range map[string]string{"a": "vote 2", "b": "none 2", "c": "new_answer 1"} {
		last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), b.store, layout.Agent(agent, "last_action.json"))
		require.NoError(t, err, agent)
		require.Equal(t, want, fmt.Sprintf("%s %d", last.Action, last.StepNumber), agent)
	}
	there, err = b.store.Exists(t.Context(), layout.Agent("d", "last_action.json"))
	require.NoError(t, err)
	require.False(t, there, "it has acted never")
}

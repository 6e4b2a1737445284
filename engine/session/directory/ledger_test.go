package directory

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// commit is an action.json of the workflow run "r".
func commit(token, kind, payload string) string {
	return fmt.Sprintf(`{"token": %q, "kind": %q, "payload": %s, "seen_steps": {"a": 1, "b": 1}}`, token, kind, payload)
}

// pulled returns a session as copied by `conclave pull`. Agent a answered twice, but the second
// answer was not accepted, because the vote of b had decided the session.
func pulled() map[string]string {
	return map[string]string{
		"session.json":             "{}",
		"agents/a/001/action.json": commit("r-l1", "new_answer", `{"answer": "A", "label": "agent1.1"}`),
		"agents/b/001/action.json": commit("r-l2", "new_answer", `{"answer": "B", "label": "agent2.1"}`),
		"agents/a/002/action.json": commit("r-l3", "vote", `{"target": "b"}`),
		"agents/b/002/action.json": commit("r-l4", "vote", `{"target": "b"}`),
		"agents/a/003/action.json": commit("r-l5", "new_answer", `{"answer": "late", "label": "agent1.2"}`),
		"agents/b/003/action.json": commit("r-l6", "new_answer", `{"answer": "presented", "label": "agent2.final"}`),
		"ledger/000001.json":       `{"run": "r", "seq": 1, "agent": "a", "step": 1, "action": "new_answer", "label": "agent1.1"}`,
		"ledger/000002.json":       `{"run": "r", "seq": 2, "agent": "b", "step": 1, "action": "new_answer", "label": "agent2.1"}`,
		"ledger/000003.json":       `{"run": "r", "seq": 3, "agent": "a", "step": 2, "action": "vote", "target": "b"}`,
		"ledger/000004.json":       `{"run": "r", "seq": 4, "agent": "b", "step": 2, "action": "vote", "target": "b"}`,
		"ledger/000005.json":       `{"run": "r", "seq": 5, "agent": "b", "step": 3, "action": "new_answer", "label": "agent2.final"}`,
	}
}

func TestLedger_acceptedActions(t *testing.T) {
	t.Parallel()
	s := newSession(t, pulled())
	d, warnings := s.read()
	require.Equal(t, []string{"agents/a/003: is not on the ledger: the session has not accepted it; the step is ignored"}, warnings)
	require.Equal(t, "a=voted:b b=voted:b | consensus agent2.1 with 2", summarize(d.Check(coordination.Config{}, nil)))

	// Steps of other programs count.
	s.write("agents/a/004/answer.json", answerJSON("by hand"))
	d, _ = s.read()
	require.Equal(t, "by hand", latest(t, d, "a"))
	require.Equal(t, "a=answered:agent1.2 b=voted:b:stale | next a,b", summarize(d.Check(coordination.Config{}, nil)))
}

func TestLedger_malformed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, say string }{
		"torn":      {`{"run`, "ledger/000003.json: is not valid JSON"},
		"a gap":     {`{"run": "r", "seq": 7, "agent": "a", "step": 2, "action": "vote"}`, "ledger/000003.json: has entry 7 after 2 entries"},
		"no number": {`{"run": "r", "agent": "a"}`, "ledger/000003.json: has entry 0 after 2 entries"},
		"a string":  {`{"seq": "3"}`, "ledger/000003.json: is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := pulled()
			files["ledger/000003.json"] = tt.content
			d, warnings := newSession(t, files).read()
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.say)
			require.Contains(t, warnings[0], "the ledger is ignored, and all actions count")
			require.Equal(t, "a=answered:agent1.2 b=voted:b:stale | next a,b", summarize(d.Check(coordination.Config{}, nil)))
		})
	}
}

func TestLedger_disagreesWithAStep(t *testing.T) {
	t.Parallel()
	files := pulled()
	files["ledger/000003.json"] = `{"run": "r", "seq": 3, "agent": "a", "step": 2, "action": "stop"}`
	d, warnings := newSession(t, files).read()
	require.Contains(t, warnings, "agents/a/002: ended with vote, and the ledger says stop; the step is ignored")
	require.Equal(t, "a=answered:agent1.1 b=voted:b | next a", summarize(d.Check(coordination.Config{}, nil)))
}

// After a workflow reset later files replace earlier ones.
func TestLedger_afterAReset(t *testing.T) {
	t.Parallel()
	files := pulled()
	files["ledger/000006.json"] = `{"run": "r2", "seq": 3, "agent": "b", "step": 2, "action": "vote", "target": "b"}`
	d, _ := newSession(t, files).read()
	require.Equal(t, "a=answered:agent1.1 b=voted:b | next a", summarize(d.Check(coordination.Config{}, nil)))
}

// Answers before a restart of the team only count for labels.
func TestLedger_secondAttempt(t *testing.T) {
	t.Parallel()
	files := pulled()
	files["agents/a/004/action.json"] = commit("r-l7", "new_answer", `{"answer": "A again"}`)
	files["ledger/000006.json"] = `{"run": "r", "seq": 6, "agent": "a", "step": 4, "action": "new_answer", "label": "agent1.2", "attempt": 2}`
	d, _ := newSession(t, files).read()
	require.Equal(t, "a=answered:agent1.2 b=no_action | next a,b", summarize(d.Check(coordination.Config{}, nil)))
	l, err := d.Launch("b", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, []coordination.Shown{{Agent: "a", Number: 1, Label: "agent1.2", Step: 4}}, l.Shown)
}

// A human message makes votes stale whose voters did not receive it, unless its text is missing.
func TestLedger_messages(t *testing.T) {
	t.Parallel()
	files := pulled()
	files["ledger/000006.json"] = `{"run": "r", "seq": 6, "action": "say", "agent": "b", "message": 1, "text": "Think again."}`
	files["messages/001.json"] = `{"number": 1, "agent": "b", "text": "Think again."}`
	s := newSession(t, files)
	d, _ := s.read()
	require.Equal(t, "a=voted:b b=voted:b:stale | next b", summarize(d.Check(coordination.Config{}, nil)))
	l, err := d.Launch("b", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, []coordination.Message{{Number: 1, Agent: "b"}}, l.Messages)

	for content, say := range map[string]string{"torn": "is not valid JSON", `{"text": 1}`: "is malformed: json: cannot unmarshal number"} {
		s.write("messages/001.json", content)
		d, warnings := s.read()
		require.Contains(t, warnings[0], "messages/001.json: "+say)
		require.Contains(t, warnings[0], "the messages of people are ignored")
		require.Equal(t, "a=voted:b b=voted:b | consensus agent2.1 with 2", summarize(d.Check(coordination.Config{}, nil)))
	}
	require.NoError(t, os.Remove(s.path("messages/001.json")))
	d, warnings := s.read()
	require.Contains(t, warnings[0], "messages/001.json: is missing")
	require.Empty(t, d.Messages)
}

// The ledger of a reopened session contains a seal. Steps of the new run also need an entry.
func TestLedger_reopened(t *testing.T) {
	t.Parallel()
	files := pulled()
	files["ledger/000006.json"] = `{"run": "r2", "from": "r", "seq": 0, "action": "resumed"}`
	files["agents/a/004/action.json"] = commit("r2-l7", "new_answer", `{"answer": "not accepted", "label": "agent1.2"}`)
	d, warnings := newSession(t, files).read()
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[1], "agents/a/004: is not on the ledger")
	require.Equal(t, "a=voted:b b=voted:b | consensus agent2.1 with 2", summarize(d.Check(coordination.Config{}, nil)))
}

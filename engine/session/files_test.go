package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// Seed 001 compares only texts, but here the files are part of the result. Equal text with other
// files is a new answer; with the same files it is a vote.
func TestStep_sameTextOtherFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", write("x.html", "1"), answer("The site is in /workspace/x.html."))
	require.NoError(t, err)
	shown := coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}

	r, _, err := b.run(later("agent_a", 1, 1, shown), "run-b", write("x.html", "2, better"), answer("The site is in /workspace/x.html."))
	require.NoError(t, err)
	require.Equal(t, "new_answer", r.Commit.Kind)
	page, err := b.store.Get(t.Context(), "agents/agent_a/002/workspace/x.html")
	require.NoError(t, err)
	require.Equal(t, "2, better", string(page))

	r, model, err := b.run(later("agent_b", 2, 0, shown), "run-c",
		write("x.html", "1"), answer("The site is in /workspace/x.html."), answer("The site is in /workspace/x.html."))
	require.NoError(t, err)
	require.Equal(t, "vote", r.Commit.Kind)
	require.Len(t, model.requests, 3)
	o, err := session.ReadOutcome(r.Commit)
	require.NoError(t, err)
	require.Equal(t, "agent_a", o.Target)
}

// bucket is a store that does not reveal its directory.
type bucket struct{ artifact.Store }

// Paths of a workspace in an answer are rewritten for each reader: to peers/agent<N> for
// peers, to paths in the bucket for people.
func TestStep_paths(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.store = bucket{b.store}
	_, _, err := b.run(first("agent_b", 2), "run-b", write("b.txt", "b"), answer("Two."))
	require.NoError(t, err)
	shown := []coordination.Shown{{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}}
	text := "See /workspace/x.html, /tmp/conclave-step-7/files/x.html, /workspace/peers/agent2/b.txt and peers/agent2/b.txt."
	_, _, err = b.run(later("agent_a", 1, 0, shown...), "run-a", write("x.html", "<p>"), answer(text))
	require.NoError(t, err)

	var got artifact.Answer
	b.read("agents/agent_a/001/answer.json", &got)
	const theirs = "agents/agent_b/001/workspace/b.txt"
	require.Equal(t, "See x.html, x.html, "+theirs+" and "+theirs+".", got.Answer)
	var last artifact.LastAction
	b.read("agents/agent_a/last_action.json", &last)
	require.Equal(t, got.Answer, *last.AnswerText)

	shown = append([]coordination.Shown{{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}}, shown...)
	_, model, err := b.run(later("agent_b", 2, 1, shown...), "run-c", vote("agent1", "It is right."))
	require.NoError(t, err)
	require.Contains(t, model.requests[0].Messages[1].Content,
		"See peers/agent1/x.html, peers/agent1/x.html, peers/agent2/b.txt and peers/agent2/b.txt.")
}

// A presenter gets the verification memos of all answers in one file, which is only for reading: if
// the presenter has no files of its own, the winner's are used.
func TestStep_mergedMemos(t *testing.T) {
	t.Parallel()
	const memo = "memory/short_term/verification_latest.md"
	b := newBench(t)
	_, _, err := b.run(first("agent_a", 1), "run-a", write("x.html", "1"), write(memo, "Open x.html."), answer("One."))
	require.NoError(t, err)
	_, _, err = b.run(first("agent_b", 2), "run-b", write(memo, "Ask."), answer("Two."))
	require.NoError(t, err)
	l := later("agent_b", 2, 1,
		coordination.Shown{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}, coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1})
	l.Purpose, l.Offered = coordination.Present, l.Offered[:1]
	l.Brief = &coordination.Brief{Strategy: "winner_present", Label: "agent1.1", Votes: 2, Voters: 2}
	_, model, err := b.run(l, "run-p", call("read_file", map[string]string{"path": memo}), answer("One."))
	require.NoError(t, err)
	require.Contains(t, model.requests[0].Messages[1].Content, "All of them are in "+memo)
	told := model.requests[1].Messages[3].Content
	require.Contains(t, told, "# Notes of agent1.1\n\nOpen peers/agent1/x.html.")
	require.Contains(t, told, "# Notes of agent2.1\n\nAsk.")
}

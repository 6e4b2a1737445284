package session

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Overlap is the Jaccard similarity of the sets of words in lower case.
func TestOverlap(t *testing.T) {
	t.Parallel()
	overlapOf := func(a, b string) float64 { return wordOverlap(wordSet(a), wordSet(b)) }
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"", "", 1},
		{" \n", "\t", 1},
		{"", "a", 0},
		{"a b", "c d", 0},
		{"A b\nB  a", "b A", 1},
		{"a b c", "b c d", 0.5},
		{"a, b", "a b", 1. / 3},
	} {
		require.InDelta(t, c.want, overlapOf(c.a, c.b), 1e-9, "%q and %q", c.a, c.b)
		require.InDelta(t, c.want, overlapOf(c.b, c.a), 1e-9)
	}
}

// Seed 001, "Enforcement checks: new_answer limits, novelty, duplicate constraints": a similarity
// above 0.5 (strict) or 0.7 (balanced) is too high, exactly 0.5 or 0.7 is not. The agent's own
// answer is compared like others.
func TestNovelty(t *testing.T) {
	t.Parallel()
	const there = "a b c d e f g h i j"
	for name, c := range map[string]struct {
		novelty, answer, rejected string
	}{
		"lenient takes all but the same": {"lenient", "a b c d e f g h i", ""},
		"unset is lenient":               {"", "a b c d e f g h i", ""},
		"the same is refused":            {"lenient", "a b c d e f g h i j ", answerDuplicate},
		"balanced, exactly 0.7":          {"balanced", "a b c d e f g", ""},
		"balanced, 0.8":                  {"balanced", "A B C d e f g h", answerNovelty},
		"balanced, the same":             {"balanced", there, answerDuplicate},
		"strict, exactly 0.5":            {"strict", "a b c d e", ""},
		"strict, 0.6":                    {"strict", "a b c d e f", answerNovelty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Novelty, task.Answers[0].Text = c.novelty, there
			p := play(t, t.Context(), task, does(callAnswer(c.answer)))
			require.Equal(t, c.rejected, p.entries[2].Reason)
			if c.rejected == answerNovelty {
				require.Contains(t, p.results()[0], "too close to agent1.2: more than ")
				require.Contains(t, p.results()[0], "Submit one that differs in substance, or vote.")
			}
		})
	}
}

// Answers shown by an update are compared, as are the answers that they replaced.
func TestNovelty_updates(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.answer(3, 2, "Mars has Phobos and Deimos.")
	task := evaluation()
	w.reach(&task)
	task.Updates.Mode = coordination.Inject
	p := play(t, t.Context(), task,
		does(callAnswer("Mars has Phobos and Deimos.")),
		turn{calls: reply(callAnswer("Two, and here is a source.")).ToolCalls})
	require.NoError(t, p.err)
	require.Equal(t, []string{"", "", "", answerDuplicate, "", ""}, p.reasons())

	w.answer(3, 3, "Mars has two, as all know.")
	replaced := play(t, t.Context(), task, does(callAnswer("Mars has two moons.")))
	require.Equal(t, answerDuplicate, replaced.entries[3].Reason)
	require.Contains(t, replaced.results()[0], "the same as agent3.1, which is there already. Change something that matters, or vote.")
	require.Equal(t, []string{"new_answer", "vote"}, replaced.offered(1), "nobody can vote for a replaced answer")
	p.requireRestores(t, task)
}

// Only competing answers must be novel.
func TestNovelty_presenter(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), presenting)
	task.Novelty = "strict"
	p := play(t, t.Context(), task, does(callAnswer(task.Answers[0].Text)))
	require.NoError(t, p.err)
}

// Repeating an answer means agreement. The step is then offered only the vote for it (in divided
// work, the stop), and the same text again counts as that action.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	theSame, moons := callAnswer("Mars has two moons."), `{"number": 3, "label": "agent3.1", "reason": "Submitted the same answer."}`
	for name, c := range map[string]struct {
		change  func(*task)
		then    llm.ToolCall
		offered []string
		says    string
		kind    string
		payload string
	}{
		"again":      {func(*task) {}, theSame, []string{"vote"}, `To support agent3.1, call vote with {"agent_id": "agent3", "reason": "it is right"}.`, "vote", moons},
		"a vote":     {func(*task) {}, vote("agent3"), []string{"vote"}, "Nothing was submitted.", "vote", `{"number": 3, "label": "agent3.1", "reason": "It is right."}`},
		"another":    {func(*task) {}, vote("agent1"), []string{"vote"}, "", "vote", `{"number": 1, "label": "agent1.2", "reason": "It is right."}`},
		"a new one":  {func(*task) {}, callAnswer("None."), []string{"vote"}, "", "new_answer", `{"content": "None."}`},
		"the lowest": {func(t *task) { t.Answers[0].Text = t.Answers[1].Text }, theSame, []string{"vote"}, "agent1.2", "vote", `{"number": 1, "label": "agent1.2", "reason": "Submitted the same answer."}`},
		"a part":     {divided, theSame, []string{"stop"}, `call stop with {"status": "complete", "summary": "my part is done"}`, "stop", `{"status": "complete", "summary": "Submitted the same answer."}`},
		"the files decide": {func(t *task) {
			t.Answers[0].Text = t.Answers[1].Text
			t.Answers[0].Manifest, t.Answers[1].Manifest, t.Manifest = "f1", "f2", manifests("f2", "f2")
		}, theSame, []string{"vote"}, "agent3.1", "vote", moons},
		"other files": {func(t *task) { t.Manifest = manifests("", "new") }, theSame, []string{"vote"}, "", "new_answer", `{"content": "Mars has two moons."}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := with(evaluation(), c.change)
			p := play(t, t.Context(), task, does(theSame), does(c.then))
			require.NoError(t, p.err)
			require.Equal(t, answerDuplicate, p.entries[2].Reason)
			require.Contains(t, p.entries[2].Messages[0].Content, c.says)
			require.Equal(t, c.offered, p.offered(1))
			require.Equal(t, c.kind, p.action.Kind)
			require.JSONEq(t, c.payload, string(p.action.Payload))
			p.requireRestores(t, task)
		})
	}
}

// If an agent repeats an answer, including its own, its vote is for the equal answer with the
// lowest number. Equality is determined as configured in agree.
func TestDuplicate_equal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agree, lowest, own, voted, says string
	}{
		"normalized":      {"normalized", "FORTY two.", "forty TWO", "agent1.2", "Your answer is equal to agent1.2, which is there already. Nothing was submitted. To support agent1.2"},
		"exact":           {"exact", "FORTY two.", "forty TWO", "agent3.1", "Your answer is the same as agent3.1"},
		"lines":           {"normalized", "6 × 7\nANSWER: 42", "It is known.\nANSWER: 42.", "agent1.2", "equal to agent1.2"},
		"different lines": {"normalized", "6 × 7\nANSWER: 42", "It is known.\nANSWER: 43", "agent3.1", "the same as agent3.1"},
		"no line in one":  {"normalized", "42", "It is known.\nANSWER: 42", "agent3.1", "the same as agent3.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Agree = c.agree
			for i, text := range []string{c.lowest, c.own} {
				task.Answers[i].Text, task.Answers[i].Digest = text, digestOf(text, "")
			}
			again := does(callAnswer(strings.ReplaceAll(c.own, "\n", `\n`)))
			p := play(t, t.Context(), task, again, again)
			require.NoError(t, p.err)
			require.Contains(t, p.entries[2].Messages[0].Content, c.says)
			require.Equal(t, "vote", p.action.Kind)
			require.Contains(t, string(p.action.Payload), `"label":"`+c.voted+`"`)
			p.requireRestores(t, task)
		})
	}
}

// manifests returns a function that returns the hashes in order.
func manifests(hashes ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		hash := hashes[0]
		hashes = hashes[1:]
		return hash, nil
	}
}

// If no vote can be offered, every repeated answer is rejected.
func TestDuplicate_withoutVote(t *testing.T) {
	t.Parallel()
	task := evaluation()
	task.Offered = []coordination.Action{coordination.NewAnswer}
	again := does(callAnswer("  Mars has two moons.\\n"))
	p := play(t, t.Context(), task, again, again, again)
	var none *loop.NoActionError
	require.ErrorAs(t, p.err, &none)
	require.Equal(t, answerDuplicate, none.Reason)
	require.Equal(t, []string{"Your answer is the same as agent3.1, which is there already. Change something that matters. Nothing was submitted."}, p.results())
}

// News makes both an answer and a vote possible again.
func TestDuplicate_news(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w)
	p := play(t, t.Context(), task,
		does(callAnswer("Mars has two moons.")),
		turn{calls: reply(reading).ToolCalls, while: func() { w.answer(2, 1, "Phobos.") }},
		does(callAnswer("Mars has two moons.")),
		does(callAnswer("Mars has two moons.")))
	require.NoError(t, p.err)
	require.Equal(t, []string{"new_answer", "vote"}, p.offered(2))
	require.Equal(t, "vote", p.action.Kind)
}

// Equal text with other files is a new answer, and so is similar text.
func TestNovelty_files(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, manifest, rejected string
	}{
		"the same text, other files":     {"Mars has two moons.", "other", ""},
		"the same text, the same files":  {"Mars has two moons.", "files", answerDuplicate},
		"the same text, no files":        {"Mars has two moons.", "", answerDuplicate},
		"nearly the text, other files":   {"Mars has two moons", "other", ""},
		"nearly the text, the same ones": {"Mars has two moons", "files", answerNovelty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Novelty, task.Answers[1].Manifest, task.Manifest = "strict", "files", manifests(c.manifest)
			p := play(t, t.Context(), task, does(callAnswer(c.text)))
			require.Equal(t, c.rejected, p.entries[2].Reason)
		})
	}
}

// A vote and a copy of the answer voted for in one reply count as the vote.
func TestJudge_voteAndItsAnswer(t *testing.T) {
	t.Parallel()
	both := reply(callAnswer(" Mars has two moons."), vote("agent3"))
	v := newRules(evaluation()).Judge(both)
	require.Empty(t, v.Rejected)
	require.Equal(t, "vote", v.Action.Kind)
	require.Equal(t, map[string]string{
		"a": "The same as the answer that you vote for; the vote counts.", "b": "Your vote for agent3.1 is recorded.",
	}, v.Results)

	other := newRules(evaluation()).Judge(reply(callAnswer("Mars has two moons."), vote("agent1")))
	require.Equal(t, voteAndAnswer, other.Rejected)
}

// The same text with other files is a separate answer beside the vote, even if the reply itself
// wrote these files.
func TestJudge_voteAndAnswerWithOtherFiles(t *testing.T) {
	t.Parallel()
	both := turn{calls: reply(call("write_file", "{}"), callAnswer("Mars has two moons."), vote("agent3")).ToolCalls}
	for name, c := range map[string]struct {
		manifest, rejected, kind string
	}{
		"other files":    {"other", voteAndAnswer, "new_answer"},
		"the same files": {"files", "", "vote"},
		"no files":       {"", "", "vote"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Answers[1].Manifest, task.Manifest = "files", manifests(c.manifest, c.manifest)
			p := play(t, t.Context(), task, both, does(callAnswer("Mars has two moons.")))
			require.NoError(t, p.err)
			require.Equal(t, c.rejected, p.entries[2].Reason)
			require.Equal(t, c.kind, p.action.Kind)
			if c.rejected != "" {
				require.Contains(t, p.entries[2].Messages[1].Content, "your files differ from those of agent3.1. Decide for one of them.")
			}
			p.requireRestores(t, task)
		})
	}
}

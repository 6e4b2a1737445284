package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The contract: equal answers are "the same after NFKC, case folding, collapsed white space
// and without closing punctuation, or byte for byte; where all have a last line ANSWER: …,
// that line alone is compared".
func TestDigest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b                           string
		exact, normalized, line, inRaw bool
	}{
		"the same":          {a: "402", b: "402", exact: true, normalized: true},
		"closing dot":       {a: "It is 402.", b: "it is  402", normalized: true},
		"case and spaces":   {a: "Straße\n", b: "STRASSE", normalized: true},
		"full-width digits": {a: "４０２", b: "402", normalized: true},
		"another number":    {a: "402", b: "403"},
		"a sign":            {a: "-402", b: "402"},
		"last lines":        {a: "Long.\nANSWER: 402", b: "Short.\n\n**ANSWER: 402.**\n", line: true},
		"last lines, bytes": {a: "Long.\nANSWER: 402", b: "Short.\nANSWER: 402", line: true, inRaw: true},
		"other last lines":  {a: "Same.\nANSWER: 402", b: "Same.\nANSWER: 278"},
		"not the last line": {a: "ANSWER: 402\nI think.", b: "ANSWER: 402\nSo it is."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := digestOf(c.a, ""), digestOf(c.b, "")
			require.Equal(t, c.exact, a.Exact == b.Exact)
			require.Equal(t, c.normalized, a.Normalized == b.Normalized)
			require.Equal(t, c.line, a.NormalizedLine != "" && a.NormalizedLine == b.NormalizedLine)
			require.Equal(t, c.inRaw, a.ExactLine != "" && a.ExactLine == b.ExactLine)
		})
	}
	require.NotEqual(t, digestOf("See x.", "files").Normalized, digestOf("See x.", "others").Normalized)
	require.Equal(t, digestOf("ANSWER: 1", "files").NormalizedLine, digestOf("ANSWER: 1", "others").NormalizedLine)
}

// agreed sets up a vote on four answers: agent1 and agent3 gave equal answers, and agent4 copied
// one that it was shown.
func agreed(t *task) {
	t.Agree, t.ShowAgreement = "normalized", true
	t.Answers = []answer{
		{Number: 1, Label: "agent1.2", Step: 2, Text: "Two."},
		{Number: 2, Label: "agent2.1", Step: 1, Text: "Three."},
		{Number: 3, Label: "agent3.1", Step: 1, Text: "two", Saw: map[int]int{1: 1}},
		{Number: 4, Label: "agent4.1", Step: 3, Text: "TWO", Saw: map[int]int{1: 2}},
	}
	for i, a := range t.Answers {
		t.Answers[i].Digest = digestOf(a.Text, "")
	}
}

// Voters are told which answers are equal and how many agents gave each.
func TestAgreements(t *testing.T) {
	t.Parallel()
	const told = "# Equal answers\n\nEach agent came to its answer without seeing the others that equal it.\n\n- agent1.2, agent3.1: the same answer, given by 2 agents"
	for name, c := range map[string]struct {
		change func(*task)
		told   bool
	}{
		"a vote":             {func(*task) {}, true},
		"exactly equal":      {func(t *task) { t.Agree = "exact" }, false},
		"not to be shown":    {func(t *task) { t.ShowAgreement = false }, false},
		"no vote":            {func(t *task) { t.Offered = t.Offered[:1] }, false},
		"all answers unlike": {func(t *task) { t.Answers = t.Answers[:2] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opening, err := newRules(with(with(evaluation(), agreed), c.change)).Opening()
			require.NoError(t, err)
			if c.told {
				require.Contains(t, opening[1].Content, told)
			} else {
				require.NotContains(t, opening[1].Content, "Equal answers")
			}
		})
	}
}

// Voters are also told about equal answers that arrive while they work.
func TestAgreements_update(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, func(t *task) { t.Agree, t.ShowAgreement = "normalized", true })
	task.Answers[1].Digest = digestOf(task.Answers[1].Text, "")
	p := play(t, t.Context(), task,
		turn{calls: reply(reading).ToolCalls, while: func() {
			a := w.answer(2, 1, "mars has two moons")
			a.Digest = digestOf(a.Text, "")
			w.texts[a.Label] = a
		}},
		turn{calls: reply(vote("agent2")).ToolCalls})
	require.NoError(t, p.err)
	require.Contains(t, p.updates()[0], "- agent2.1, agent3.1: the same answer, given by 2 agents")
}

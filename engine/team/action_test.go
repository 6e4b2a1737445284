package team

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// The Jaccard similarity of the sets of lower-cased words.
func TestOverlap(t *testing.T) {
	t.Parallel()
	overlapOf := func(a, b string) float64 { return overlap(words(a), words(b)) }
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

// Seed 001, "Enforcement checks: new_answer limits, novelty, duplicate constraints":
// above 0.5 (strict) and above 0.7 (balanced) is too close, exactly that is not, and the
// agent's own answer counts like any other.
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
			v := newRules(task).Judge(reply(callAnswer(c.answer)))
			require.Equal(t, c.rejected, v.Rejected)
			if c.rejected == answerNovelty {
				require.Contains(t, v.Say, "too close to agent1.2: more than ")
				require.Contains(t, v.Say, "Submit one that differs in substance, or vote.")
			}
		})
	}
}

// Answers shown by an update count, and so do those that they replaced.
func TestNovelty_updates(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.answer(3, 2, "Mars has Phobos and Deimos.")
	task := evaluation()
	w.reach(&task)
	task.Updates.Mode = coordination.Inject
	p := play(t, t.Context(), task,
		does(callAnswer("Mars has Phobos and Deimos.")),
		does(callAnswer("Mars has two moons.")),
		does(callAnswer("Two, and here is a source.")))
	require.NoError(t, p.err)
	require.Equal(t, []string{"", "", "", answerDuplicate, "", answerDuplicate, "", ""}, p.reasons())
	p.requireRestores(t, task)
}

// Novelty is required of competing answers only.
func TestNovelty_presenter(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), presenting)
	task.Novelty = "strict"
	v := newRules(task).Judge(reply(callAnswer(task.Answers[0].Text)))
	require.NotNil(t, v.Action)
}

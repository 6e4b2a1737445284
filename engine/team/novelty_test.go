package team_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/team"
)

// TestOverlap: the Jaccard similarity of the sets of lower-cased words.
func TestOverlap(t *testing.T) {
	t.Parallel()
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
		require.InDelta(t, c.want, team.Overlap(c.a, c.b), 1e-9, "%q and %q", c.a, c.b)
		require.InDelta(t, c.want, team.Overlap(c.b, c.a), 1e-9)
	}
}

// TestNovelty proves seed 001, "Enforcement checks: new_answer limits, novelty,
// duplicate constraints": above 0.5 (strict) and above 0.7 (balanced) is too
// close, exactly that is not, and the agent's own answer counts like any other.
func TestNovelty(t *testing.T) {
	t.Parallel()
	const there = "a b c d e f g h i j"
	for name, c := range map[string]struct {
		novelty, answer, rejected string
	}{
		"lenient takes all but the same": {team.Lenient, "a b c d e f g h i", ""},
		"unset is lenient":               {"", "a b c d e f g h i", ""},
		"the same is refused":            {team.Lenient, "a b c d e f g h i j ", team.AnswerDuplicate},
		"balanced, exactly 0.7":          {team.Balanced, "a b c d e f g", ""},
		"balanced, 0.8":                  {team.Balanced, "A B C d e f g h", team.AnswerNovelty},
		"balanced, the same":             {team.Balanced, there, team.AnswerDuplicate},
		"strict, exactly 0.5":            {team.Strict, "a b c d e", ""},
		"strict, 0.6":                    {team.Strict, "a b c d e f", team.AnswerNovelty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Novelty, task.Answers[0].Text = c.novelty, there
			v := team.New(task).Judge(reply(answer(c.answer)))
			require.Equal(t, c.rejected, v.Rejected)
			if c.rejected == team.AnswerNovelty {
				require.Contains(t, v.Say, "too close to agent1.2: more than ")
				require.Contains(t, v.Say, "Submit one that differs in substance, or vote.")
			}
		})
	}
}

// TestNoveltyOfInjectedAnswers: what an update showed counts, and what it took
// the place of still does.
func TestNoveltyOfInjectedAnswers(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.answer(3, 2, "Mars has Phobos and Deimos.")
	task := evaluation()
	w.reach(&task)
	task.Updates.Mode = team.Inject
	p := play(t, t.Context(), task,
		does(answer("Mars has Phobos and Deimos.")),
		does(answer("Mars has two moons.")),
		does(answer("Two, and here is a source.")))
	require.NoError(t, p.err)
	require.Equal(t, []string{"", "", "", team.AnswerDuplicate, "", team.AnswerDuplicate, "", ""}, p.reasons())
	p.requireRestores(t, task)
}

// TestPresenterMayPresentAnAnswerAsItIs: novelty is for answers that compete.
func TestPresenterMayPresentAnAnswerAsItIs(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), presenting)
	task.Novelty = team.Strict
	v := team.New(task).Judge(reply(answer(task.Answers[0].Text)))
	require.NotNil(t, v.Action)
}

package page

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/session/check"
)

// sessionOf reads a played session.
func sessionOf(t *testing.T, p *stage.Play) *record.Session {
	t.Helper()
	s, err := record.NewReader(p.Store, p.Layout, nil).Read(t.Context())
	require.NoError(t, err)
	return s
}

func TestJudgedOf_checks(t *testing.T) {
	t.Parallel()
	j := judgedOf(sessionOf(t, stage.Checked(t)))
	require.True(t, j.Any())
	require.Equal(t, []checkColumn{{Name: "name of c1"}, {Name: "name of c2"}}, j.Checks)
	var outcomes [][]string
	for _, row := range j.Checked {
		cells := []string{row.Label}
		for _, c := range row.Cells {
			cells = append(cells, c.Outcome+": "+c.Detail)
		}
		outcomes = append(outcomes, cells)
	}
	require.Equal(t, [][]string{
		{"agent1.1", "passed: exit code 0", "failed: exit code 1"},
		{"agent2.1", "passed: exit code 0", "passed: exit code 0"},
		{"agent3.1", "failed: exit code 1", ": "},
	}, outcomes)
	require.Empty(t, j.Scored)
	require.False(t, judgedOf(sessionOf(t, stage.ThreeRounds(t))).Any())
}

func TestCheckOf_limit(t *testing.T) {
	t.Parallel()
	got := checkOf(check.Result{Check: "c1", Limit: "60 seconds"})
	require.Equal(t, []string{"failed", "ended by a limit: 60 seconds"}, []string{got.Outcome, got.Detail})
}

func TestJudgedOf_scores(t *testing.T) {
	t.Parallel()
	j := judgedOf(sessionOf(t, stage.Evaluated(t)))
	require.Equal(t, []string{"E1", "E2"}, j.Criteria)
	require.Equal(t, []scoredRow{
		{Label: "agent1.1", Verdict: "iterate", Ceiling: "not reached", Scores: []string{"6", "5.5"}, Total: "11.5"},
		{Label: "agent1.2", Verdict: "converged", Scores: []string{"9", "8"}, Total: "17"},
		{Label: "agent2.1", Verdict: "converged", Scores: []string{"8", "9"}, Total: "17"},
	}, j.Scored)
}

// A check that was not run on an answer leaves its cell empty, as a missing score does.
func TestJudgedOf_missing(t *testing.T) {
	t.Parallel()
	p := &record.Step{
		Answer: &record.Answer{Label: "agent1.1"}, Checks: []check.Result{{Check: "b", Passed: true}},
		Evaluation: &record.Evaluation{},
	}
	cells := cellsOf(p, []string{"a", "b"})
	require.Equal(t, []string{"", "passed"}, []string{cells[0].Outcome, cells[1].Outcome})
	require.Equal(t, "b", cells[1].Name, "a check without a name has its ID")
	require.Equal(t, []string{""}, scoredOf(p, []string{"E1"}).Scores)
}

// The page shows each evaluation with its plan, its critique and its transcript.
func TestWrite_evaluation(t *testing.T) {
	t.Parallel()
	text := visible(drawn(t, stage.Evaluated(t)))
	for _, want := range []string{
		"Evaluation: iterate, ceiling not reached", "Objective of the next version: Say where the market is.", "There is room.",
		"Name the street. done when: the street is named", "To preserve: the first sentence", "The first sentence.",
		"results: accepted as submit_evaluation", "agent_a 001 evaluation",
	} {
		require.Contains(t, text, want)
	}
}

// The story draws the time of evaluations, outcomes of checks, and agents that join.
func TestStoryOf_judgements(t *testing.T) {
	t.Parallel()
	evaluated := storyOf(sessionOf(t, stage.Evaluated(t)), stage.Began)
	var titles []string
	for _, b := range itemsOf(evaluated.Lanes[0].Bars) {
		if b.Class == "bar evaluated" {
			titles = append(titles, b.Title)
		}
	}
	require.Equal(t, []string{"evaluation of agent1.1: iterate, 2.0 s", "evaluation of agent1.2: converged, 1.0 s"}, titles)

	marks := map[string][]string{}
	for _, l := range storyOf(sessionOf(t, stage.Checked(t)), stage.Began).Lanes {
		for _, m := range itemsOf(l.Updates) {
			if m.Class == coordination.EntryChecked || m.Class == coordination.EntryJoined {
				marks[l.Agent] = append(marks[l.Agent], m.Title)
			}
		}
	}
	require.Equal(t, map[string][]string{
		"agent_a": {"agent1.1 passes 1 of 2 checks"}, "agent_b": {"agent2.1 passes 2 of 2 checks"},
		"agent_c": {"agent_c joins: no majority agrees", "agent3.1 passes 0 of 2 checks, 1 could not be run"},
	}, marks)
}

// The words for the ways in which decisions are found.
func TestHow(t *testing.T) {
	t.Parallel()
	want := map[string][2]string{
		"equal first answers":      {"consensus by equal answers", "won by consensus before any vote"},
		"quorum":                   {"consensus by quorum, 2 of 3 votes", "2 of 3 active agents voted for it; cut off by the quorum: agent_c."},
		"undecided":                {"undecided, 2 of 3 votes", "It is agent2.1, the answer of agent_b, with the fresh votes of 2 of 3 active agents; min_support asks for 90 %."},
		"checks":                   {"plurality by checks, 2 of 2 checks passed", "won by its checks, which rank before the votes: 0 of 3 active agents voted for it."},
		"evaluated":                {"consensus, 2 of 2 votes", "won by consensus: 2 of 2 active agents voted for it"},
		"presented":                {"consensus, 2 of 2 votes", "agent_b then presented it as agent2.final."},
		"no vote":                  {"presented", "this team does not vote"},
		"all failed after answers": {"failed", "Nothing was decided"},
		"all failed":               {"failed", "Nothing was decided: no agent has an answer."},
	}
	for _, script := range stage.Scripts {
		words, known := want[script.Name]
		if !known {
			continue
		}
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			s := sessionOf(t, script.Play(t))
			require.Equal(t, words[0], howDecided(s))
			told := ""
			for _, sentence := range explainOutcome(s) {
				told += sentence + " "
			}
			require.Contains(t, told, words[1])
		})
		delete(want, script.Name)
	}
	require.Empty(t, want)
}

func TestCeilingWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "approaching", ceilingWords(coordination.CeilingApproaching))
	require.Empty(t, ceilingWords(""))
}

// The heading of a page says that a session is undecided for lack of support.
func TestWrite_undecided(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		if script.Name == "undecided" {
			text := strings.ReplaceAll(visible(drawn(t, script.Play(t))), " ,", ",")
			require.Contains(t, text, "Undecided; the best answer: agent2.1, by agent_b")
			require.NotContains(t, text, "winner")
		}
	}
}

// A served page of an undecided session can tell the agents more, and have them vote again.
func TestDraw_undecidedGoesOn(t *testing.T) {
	t.Parallel()
	forms := func(script string) string {
		live := Live{Base: "/sessions/s1", Token: "t"}
		page, err := Draw(t.Context(), sessionOf(t, stage.Named(t, script)), live, stage.Began, NewCanvas()).Page("", "", false)
		require.NoError(t, err)
		return string(page)
	}
	require.Contains(t, forms("undecided"), `action="/sessions/s1/say"`)
	require.Contains(t, forms("undecided"), "Vote again")
	require.Contains(t, forms("all failed"), "Retry the failed steps")
	require.NotContains(t, forms("quorum"), `/sessions/s1/`+"retry")
}

// The share of equal first answers does not count the answer itself, and is no fact where there are none.
func TestSupport(t *testing.T) {
	t.Parallel()
	none, third := 0.0, 1.0/3
	for agreement, want := range map[*float64]string{&none: "", nil: "", &third: "33 % of the other first answers equal it."} {
		s := &record.Session{}
		s.State.Support = &coordination.Support{Share: 2.0 / 3, Agreement: agreement}
		require.Equal(t, want, strings.Join(supportLines(s), " "))
	}
}

// The first screen has the reason that most voters of the decision gave.
func TestBecause(t *testing.T) {
	t.Parallel()
	v := &view{Sides: []side{
		{For: true, Said: []reason{{Voters: make([]voter, 1), Text: "old", Stale: true}, {Voters: []voter{{Name: "agent_a"}}, Text: "one"}, {Voters: []voter{{Name: "agent_b"}, {Name: "agent_c"}}, Text: "two"}, {Voters: make([]voter, 3)}}},
		{Said: []reason{{Voters: make([]voter, 5), Text: "another answer"}}},
	}}
	require.Equal(t, "two", v.Because().Text)
	require.Equal(t, "agent_b and 1 other", v.Because().By())
	v.Sides = v.Sides[1:]
	require.Nil(t, v.Because())
}

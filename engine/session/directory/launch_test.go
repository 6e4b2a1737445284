package directory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

var (
	answerOnly    = []coordination.Action{coordination.NewAnswer}
	voteOnly      = []coordination.Action{coordination.Vote}
	answerAndVote = []coordination.Action{coordination.NewAnswer, coordination.Vote}
)

func TestFirstLaunch(t *testing.T) {
	t.Parallel()
	l, err := newSession(t, nil).clean().Launch("agent_b", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, coordination.Launch{ID: "l1", Agent: "agent_b", Number: 1, Round: 1, Offered: answerOnly}, l)
}

// The runner is shown the latest answer of every agent, including its own without a mark, but no
// votes.
func TestLaunch(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/agent_a/001/answer.json": answerJSON("A"), "agents/agent_a/002/answer.json": answerJSON("A2"), "agents/agent_a/003/vote.json": vote("agent_a"),
		"agents/agent_b/005/answer.json": answerJSON("B"), "agents/agent_b/006/": "",
		"agents/agent_d/001/vote.json": vote("agent_b"),
	}).clean()
	l, err := d.Launch("agent_b", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, coordination.Launch{
		ID: "l1", Agent: "agent_b", Number: 2, Round: 2, After: 6, Answers: 1, Given: 1, Offered: answerAndVote,
		Shown: []coordination.Shown{
			{Agent: "agent_a", Number: 1, Label: "agent1.2", Step: 2}, {Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 5},
		},
	}, l)

	l, err = d.Launch("agent_0", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, []string{"agent2.2", "agent3.1"}, []string{l.Shown[0].Label, l.Shown[1].Label})
	require.Equal(t, 1, l.Number)
}

// The recorded answers count toward limits.
func TestLaunchWithinLimits(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/a/002/answer.json": answerJSON("A2"), "agents/a/003/answer.json": "torn",
		"agents/b/001/answer.json": answerJSON("B"), "agents/c/001/": "",
	})
	for name, tt := range map[string]struct {
		runner string
		rules  coordination.Config
		want   []coordination.Action
	}{
		"none":                      {"a", coordination.Config{}, answerAndVote},
		"below its own":             {"b", coordination.Config{AnswersPerAgent: 2}, answerAndVote},
		"at its own":                {"a", coordination.Config{AnswersPerAgent: 2}, voteOnly},
		"below that of all":         {"a", coordination.Config{AnswersGlobal: 4}, answerAndVote},
		"at that of all":            {"c", coordination.Config{AnswersGlobal: 3}, voteOnly},
		"nobody votes":              {"a", coordination.Config{SkipVoting: true}, answerOnly},
		"voting waits, a has one":   {"a", coordination.Config{DeferVoting: true}, nil},
		"voting waits, c has none":  {"c", coordination.Config{DeferVoting: true}, answerOnly},
		"the work is divided":       {"a", coordination.Config{Mode: coordination.Decomposition}, []coordination.Action{coordination.NewAnswer, coordination.Stop}},
		"below the step limit":      {"a", coordination.Config{MaxStepsPerAgent: 3}, answerAndVote},
		"at the step limit":         {"a", coordination.Config{MaxStepsPerAgent: 2}, nil},
		"begun, but no step yet":    {"c", coordination.Config{MaxStepsPerAgent: 1}, answerAndVote},
		"far ahead, nobody is held": {"a", Rules(config.Default()), answerAndVote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, _ := d.read()
			l, err := found.Launch(tt.runner, tt.rules)
			if tt.want == nil {
				var nothing *NothingOfferedError
				require.ErrorAs(t, err, &nothing)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, l.Offered)
		})
	}
}

func TestLaunch_invalidAgent(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "Agent", "../x", "a/b"} {
		_, err := newSession(t, nil).clean().Launch(id, coordination.Config{})
		var name *artifact.NameError
		require.ErrorAs(t, err, &name)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	team := config.Default()
	team.Orchestrator.MaxNewAnswersPerAgent, team.Orchestrator.MaxNewAnswersGlobal = &one, &two
	team.Orchestrator.DeferVotingUntilAllAnswered, team.Orchestrator.SkipVoting = true, true
	require.Equal(t, coordination.Config{
		Agents: []string{"agent_a", "agent_b", "agent_c"}, Mode: "voting", MaxStepsPerAgent: 12,
		AnswersPerAgent: 1, AnswersGlobal: 2, DeferVoting: true, SkipVoting: true,
	}, Rules(team))
}

// A resumed step is shown the same answers, even if there are later ones.
func TestResume(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/b/001/answer.json": answerJSON("B"),
		"agents/b/002/step.json":   `{"token": "t", "seen_steps": {"a": 1, "b": 1}, "labels": ["agent1.1", "agent2.1"]}`,
		"agents/a/002/answer.json": answerJSON("A2"),
	})
	d := s.clean()
	b, _ := d.Agent("b")
	l, _, err := d.Resume("b", b.Unfinished[0], coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, 1, l.After)
	require.Equal(t, answerAndVote, l.Offered)
	require.Equal(t, []coordination.Shown{
		{Agent: "a", Number: 1, Label: "agent1.1", Step: 1}, {Agent: "b", Number: 2, Label: "agent2.1", Step: 1},
	}, l.Shown)

	// The claim does not record the agents, and the labels have changed.
	s.write("agents/a0/001/answer.json", answerJSON("0"))
	d = s.clean()
	_, _, err = d.Resume("b", b.Unfinished[0], coordination.Config{})
	require.ErrorContains(t, err, "step 2 of b cannot be resumed")
}

// A resumed step keeps the labels of its claim, which its conversation uses, even if agents have
// joined since.
func TestResume_afterAnotherJoined(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/b/001/answer.json": answerJSON("B"), "agents/c/001/answer.json": answerJSON("C"),
		"agents/c/002/step.json":   `{"token": "t", "seen_steps": {"b": 1, "c": 1}, "labels": ["agent1.1", "agent2.1"], "agents": ["b", "c"]}`,
		"agents/a/001/answer.json": answerJSON("A"),
	})
	d := s.clean()
	c, _ := d.Agent("c")
	l, agents, err := d.Resume("c", c.Unfinished[0], coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, agents)
	require.Equal(t, 2, l.Number)
	require.Equal(t, []coordination.Shown{
		{Agent: "b", Number: 1, Label: "agent1.1", Step: 1}, {Agent: "c", Number: 2, Label: "agent2.1", Step: 1},
	}, l.Shown)

	// Invalid agents in a claim are ignored.
	for _, agents := range []string{`["c", "b"]`, `["b", "../x"]`, `{"b": 1}`, `["b"]`} {
		s.write("agents/c/002/step.json", `{"token": "t", "seen_steps": {"b": 1, "c": 1}, "labels": ["agent1.1", "agent2.1"], "agents": `+agents+`}`)
		d := s.clean()
		c, _ := d.Agent("c")
		_, _, err := d.Resume("c", c.Unfinished[0], coordination.Config{})
		require.Error(t, err, agents)
	}
}

// The recorded usage is subtracted from the budget. An impossible usage does not increase the
// budget.
func TestLaunch_budget(t *testing.T) {
	t.Parallel()
	acted := func(usage string) string {
		return `{"token": "t", "kind": "new_answer", "payload": {"answer": "A"}, "usage": ` + usage + `}`
	}
	d := newSession(t, map[string]string{
		"agents/a/001/action.json": acted(`{"input_tokens": 900, "output_tokens": 50, "total_usd": 0.25, "model_calls": 3}`),
		"agents/b/001/action.json": acted(`{"input_tokens": -900, "output_tokens": 0, "total_usd": -1, "model_calls": 1}`),
		"agents/c/001/action.json": acted(`"much"`), "agents/d/001/answer.json": answerJSON("D"),
	}).clean()
	l, err := d.Launch("b", coordination.Config{Budget: coordination.Allowance{Tokens: 1000, USD: 1}})
	require.NoError(t, err)
	require.Equal(t, coordination.Allowance{Tokens: 50, USD: 0.75}, l.Allowance)
	for _, budget := range []coordination.Allowance{{Tokens: 950}, {USD: 0.25}} {
		_, err = d.Launch("b", coordination.Config{Budget: budget})
		require.Equal(t, &NothingOfferedError{Agent: "b", Spent: true}, err)
		require.ErrorContains(t, err, "orchestrator.budget")
	}
}

// Numbers that files and links use remain taken, also for an agent without a step.
func TestLaunch_afterForeignFiles(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{"agents/b/001/answer.json": answerJSON("B"), "agents/a/002": "a file"})
	s.link("../b/001", "agents/a/001")
	d, warnings := s.read()
	require.Len(t, warnings, 2)
	require.Equal(t, []string{"b"}, d.IDs())
	l, err := d.Launch("a", coordination.Config{})
	require.NoError(t, err)
	require.Equal(t, 2, l.After)
}

// A step that was shown no answer cannot vote.
func TestResume_firstStep(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/b/001/step.json": `{"token": "t", "seen_steps": {}, "labels": null}`,
	}).clean()
	b, _ := d.Agent("b")
	l, _, err := d.Resume("b", b.Unfinished[0], coordination.Config{})
	require.NoError(t, err)
	require.Empty(t, l.Shown)
	require.Equal(t, answerOnly, l.Offered)
	require.Equal(t, 0, l.After)
}

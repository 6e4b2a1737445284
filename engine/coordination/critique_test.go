package coordination

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func critical(set func(*Config), ids ...string) Config {
	return teamWith(func(c *Config) {
		c.Critiques = true
		if set != nil {
			set(c)
		}
	}, ids...)
}

// critique ends the running evaluation of an agent's answer.
func (p *player) critique(id string, c Critique) Critiqued {
	return Critiqued{End: End{Launch: p.latest[id], Step: 1}, Verdict: c.Verdict, Scores: c.Scores, Ceiling: c.Ceiling, Tasks: c.Tasks}
}

var (
	withTasks = Critique{Verdict: Iterate, Tasks: true, Scores: []RoundScore{{ID: "E1", Score: 4}}}
	converged = Critique{Verdict: Converged, Scores: []RoundScore{{ID: "E1", Score: 9}}}
)

func purposes(commands []Command) []Purpose {
	var all []Purpose
	for _, l := range launches(commands) {
		all = append(all, l.Purpose)
	}
	return all
}

// 86, 87. Seed 001: an answer is evaluated before its agent's next step, which gets the tasks as
// its plan and submits with new_answer.
func TestRule86_EvaluatesEveryAnswerOnce(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(nil, "a", "b"))
	p.drain()
	commands := p.batch(p.answer("a"), p.answer("b"))
	require.Equal(t, []Purpose{Evaluation, Evaluation}, purposes(commands))
	l := launches(commands)[0]
	require.Equal(t, []Action{SubmitEvaluation}, l.Offered)
	require.Equal(t, 1, l.After, "the step of the answer")
	require.Len(t, l.Shown, 2)
	require.Equal(t, 1, p.state.View().Round, "an evaluation is no round")

	require.Empty(t, launches(p.batch(p.critique("a", withTasks))), "the wave waits for all evaluations")
	commands = p.batch(p.critique("b", converged))
	require.Equal(t, []Purpose{Coordinate, Coordinate}, purposes(commands))
	a, b := launches(commands)[0], launches(commands)[1]
	require.Equal(t, []Action{NewAnswer}, a.Offered)
	require.True(t, a.Critique.Tasks)
	require.Equal(t, []Action{NewAnswer, Vote}, b.Offered)
	require.Equal(t, Converged, b.Critique.Verdict)
	require.Equal(t, 2, p.state.View().Round)
	require.Equal(t, 1, p.state.View().Agents[0].Step, "an evaluation is no step of the agent")

	commands = p.batch(p.answer("a"), p.vote("b", "b"))
	require.Equal(t, []string{"a"}, evaluated(commands), "b's answer was evaluated before")
	commands = p.batch(p.critique("a", converged))
	require.Equal(t, []string{"a", "b"}, launched(commands))
	d := decision(t, p.batch(p.vote("a", "a"), p.vote("b", "a")))
	require.Equal(t, Consensus, d.Status)
}

// 86. An agent's last answer need not be evaluated. A view shows the last completed evaluation with
// the label of its answer.
func TestRule86_AViewKeepsTheLastEvaluation(t *testing.T) {
	t.Parallel()
	judged := Critique{Verdict: Iterate, Scores: []RoundScore{{ID: "E1", Score: 4}}, Ceiling: CeilingApproaching}
	want := judged
	want.Step, want.Label = 1, "agent1.1"
	for name, most := range map[string]int{"the last answer": 2, "a failed evaluation": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlayer(critical(func(c *Config) { c.AnswersPerAgent = most }, "a"))
			p.drain()
			p.batch(p.answer("a"))
			p.batch(p.critique("a", judged))
			require.Equal(t, &want, p.state.View().Agents[0].Evaluation)
			if evaluations := evaluated(p.batch(p.answer("a"))); len(evaluations) > 0 {
				p.batch(p.fail("a"))
			}
			a := p.state.View().Agents[0]
			require.Equal(t, "agent1.2", a.LatestLabel)
			require.Equal(t, &want, a.Evaluation)
		})
	}
}

func evaluated(commands []Command) []string {
	var ids []string
	for _, l := range launches(commands) {
		if l.Purpose == Evaluation {
			ids = append(ids, l.Agent)
		}
	}
	return ids
}

// 86. An agent that may not answer again is not evaluated.
func TestRule86_OnlyBeforeAStepThatMayAnswer(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(func(c *Config) { c.AnswersPerAgent = 1 }, "a", "b"))
	p.drain()
	require.Equal(t, []Purpose{Coordinate, Coordinate}, purposes(p.batch(p.answer("a"), p.answer("b"))))
}

// 86. With continuous pacing no agent waits for the evaluation of another, and new tasks are news.
func TestRule86_Continuous(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(func(c *Config) { c.Pacing = pacingContinuous }, "a", "b"))
	p.drain()
	require.Equal(t, []string{"a"}, evaluated(p.batch(p.answer("a"))), "b still works on its first answer")
	commands := p.batch(p.critique("a", withTasks))
	require.Equal(t, []string{"a"}, launched(commands))
	require.Equal(t, []Action{NewAnswer}, theLaunch(t, commands).Offered)
}

// 86. The usage of an evaluation is counted as the agent's, and in the budget.
func TestRule86_CostCounts(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(func(c *Config) { c.Budget.Tokens = 100 }, "a"))
	p.drain()
	p.batch(p.answer("a"))
	e := p.critique("a", withTasks)
	e.Usage = llm.Usage{ModelCalls: 1, InputTokens: 90, OutputTokens: 20}
	require.Equal(t, OverSpent, decision(t, p.batch(e)).Status)
	require.EqualValues(t, 110, p.state.View().Agents[0].Cost.InputTokens+p.state.View().Agents[0].Cost.OutputTokens)
}

// 88. Seed 001: a degraded evaluation never stops the agent.
func TestRule88_AFailedEvaluationIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player) Event{
		"failed":    func(p *player) Event { return p.fail("a") },
		"exhausted": func(p *player) Event { return Exhausted{End: End{Launch: p.latest["a"]}} },
		"an outage": func(p *player) Event {
			return Failed{End: End{Launch: p.latest["a"]}, Outage: Interrupted, Cause: Failure{Type: "Outage"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlayer(critical(func(c *Config) { c.OnAgentFailure = failureFail }, "a"))
			p.drain()
			p.batch(p.answer("a"))
			l := theLaunch(t, p.batch(end(p)))
			require.Equal(t, Coordinate, l.Purpose)
			require.Nil(t, l.Critique)
			require.Equal(t, []Action{NewAnswer, Vote}, l.Offered)
			require.Equal(t, 1, p.state.Agents[0].Steps)
		})
	}
}

// 88. A pause suspends an evaluation, which is resumed from its token.
func TestRule88_Pause(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(nil, "a"))
	p.drain()
	p.batch(p.answer("a"))
	require.Len(t, only[Cancel](p.batch(Pause{})), 1)
	p.batch(Suspended{End: End{Launch: p.latest["a"], Step: 2}, Token: "t"})
	l := theLaunch(t, p.batch(Resume{}))
	require.Equal(t, Evaluation, l.Purpose)
	require.Equal(t, "t", l.ResumeFrom)
	require.Equal(t, 1, l.After)
	require.Equal(t, 1, p.state.Agents[0].Step)
}

// 89. Seed 001: "the orchestrator makes informed convergence decisions rather than burning
// rounds on diminishing returns".
func TestRule89_StopAtCeiling(t *testing.T) {
	t.Parallel()
	reached := func(score float64) Critique {
		return Critique{Verdict: Iterate, Tasks: true, Ceiling: CeilingReached, Scores: []RoundScore{{ID: "E1", Score: score}}}
	}
	play := func(stop bool, scores ...float64) []Command {
		p := newPlayer(critical(func(c *Config) { c.StopAtCeiling = stop }, "a"))
		commands := p.drain()
		for _, score := range scores {
			p.batch(p.answer("a"))
			commands = p.batch(p.critique("a", reached(score)))
		}
		return commands
	}
	require.Empty(t, only[Done](play(true, 4)), "another approach gets its chance")
	require.Empty(t, only[Done](play(true, 4, 6)), "it has helped")
	d := decision(t, play(true, 4, 5))
	require.Equal(t, Finished, d.Status)
	require.Equal(t, "agent1.2", d.WinnerLabel)
	require.Empty(t, only[Done](play(false, 4, 5)))
}

// 89. Every active agent must have reached its plateau with its newest answer.
func TestRule89_OfEveryAgent(t *testing.T) {
	t.Parallel()
	flat := Critique{Verdict: Iterate, Tasks: true, Ceiling: CeilingReached, Scores: []RoundScore{{ID: "E1", Score: 4}}}
	p := newPlayer(critical(func(c *Config) { c.StopAtCeiling = true }, "a", "b"))
	p.drain()
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.critique("a", flat), p.critique("b", flat))
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.critique("a", flat))
	require.Empty(t, only[Done](p.drain()))
	require.True(t, p.state.View().Agents[0].Evaluation.Plateau)
	require.Equal(t, Finished, decision(t, p.batch(p.critique("b", flat))).Status)
}

// 41, 89. The evaluations that were paid for decide, not the order in which the answers came.
// Votes come first.
func TestRule41_EvaluationsDecide(t *testing.T) {
	t.Parallel()
	flat := func(score float64) Critique {
		return Critique{Verdict: Iterate, Ceiling: CeilingReached, Scores: []RoundScore{{ID: "E1", Score: score}}}
	}
	play := func(set func(*Config), b float64) *player {
		p := newPlayer(critical(set, "a", "b"))
		p.drain()
		p.batch(p.answer("a"))
		p.batch(p.answer("b"))
		p.batch(p.critique("a", flat(9)), p.critique("b", flat(b)))
		return p
	}
	for name, end := range map[string]struct {
		set    func(*Config)
		status Status
		last   func(*player) []Event
	}{
		"ceiling": {func(c *Config) { c.StopAtCeiling = true }, Finished, func(p *player) []Event {
			p.batch(p.answer("a"))
			p.batch(p.answer("b"))
			return []Event{p.critique("a", flat(9)), p.critique("b", flat(2))}
		}},
		"timeout":          {nil, Timeout, func(*player) []Event { return []Event{TimeUp{}} }},
		"finish":           {nil, Finished, func(*player) []Event { return []Event{Finish{}} }},
		"limit":            {func(c *Config) { c.MaxStepsPerAgent = 2 }, Limit, func(p *player) []Event { return []Event{p.exhaust("a"), p.exhaust("b")} }},
		"budget":           {func(c *Config) { c.Budget.Tokens = 5 }, OverSpent, func(p *player) []Event { return []Event{costly(p.exhaust("a")), p.exhaust("b")} }},
		"not judged since": {nil, Finished, func(p *player) []Event { return []Event{p.answer("a"), p.answer("b"), Finish{}} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := play(end.set, 2)
			d := decision(t, p.batch(end.last(p)...))
			require.Equal(t, end.status, d.Status)
			require.Equal(t, "a", d.Winner)
			require.Equal(t, ByForce, d.DecidedBy())
		})
	}
	p := play(nil, 2)
	p.batch(p.vote("a", "b"))
	require.Equal(t, "b", decision(t, p.batch(Finish{})).Winner, "a fresh vote comes first")
	p = play(nil, 9)
	require.Equal(t, "b", decision(t, p.batch(Finish{})).Winner, "of answers that score alike, the newest")
}

// costly is the end of a step that has spent a budget.
func costly(e Event) Event {
	exhausted := e.(Exhausted)
	exhausted.Usage = llm.Usage{InputTokens: 9, ModelCalls: 1}
	return exhausted
}

// 41. An answer whose agent was never evaluated ranks below those that were.
func TestRule41_WithoutAnEvaluation(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(nil, "a", "b"))
	p.drain()
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.critique("a", withTasks), p.fail("b"))
	require.Equal(t, "a", decision(t, p.batch(Finish{})).Winner)
}

// 75, 86. Every evaluation before the last round is followed by a step that may answer.
func TestRule75_EvaluationsAreUsed(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(func(c *Config) { c.MaxRounds = 3 }, "a", "b", "c"))
	p.drain()
	commands := p.batch(p.answer("a"), p.answer("b"), p.answer("c"))
	require.Equal(t, []string{"a", "b", "c"}, evaluated(commands))
	commands = p.batch(p.critique("a", withTasks), p.critique("b", withTasks), p.critique("c", withTasks))
	require.Equal(t, map[string][]Action{"a": answerOnly, "b": answerOnly, "c": answerOnly}, offeredTo(commands))
	commands = p.batch(p.answer("a"), p.answer("b"), p.answer("c"))
	require.Empty(t, evaluated(commands), "the last round is for votes")
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": voteOnly, "c": voteOnly}, offeredTo(commands))
}

// 90. Preparations are counted before the first step.
func TestRule90_Preparations(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(c *Config) { c.Budget.Tokens = 100 }, "a"))
	p.step(Drafted{Usage: llm.Usage{ModelCalls: 1, InputTokens: 30, OutputTokens: 10}, Text: "criteria"})
	l := theLaunch(t, p.drain())
	require.EqualValues(t, 60, l.Allowance.Tokens)
	require.EqualValues(t, 30, p.state.View().Cost.InputTokens)
	require.Zero(t, p.state.View().Agents[0].Cost)

	p = newPlayer(teamWith(func(c *Config) { c.Budget.Tokens = 40 }, "a"))
	p.step(Drafted{Usage: llm.Usage{ModelCalls: 1, InputTokens: 30, OutputTokens: 10}})
	require.Equal(t, FailedAll, decision(t, p.drain()).Status)
}

// 91. Seed 001: interrupted work is kept for the agent.
func TestRule91_FilesOfAStepWithoutAnAction(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("a", "b"))
	p.drain()
	p.batch(Exhausted{End: End{Launch: p.latest["a"], Step: 1}, Token: "t1"}, p.answer("b"))
	require.Equal(t, "t1", p.state.Agents[0].Run.Launch.FilesFrom)
	require.Empty(t, p.state.Agents[1].Run.Launch.FilesFrom)
}

// 86. In a new attempt of the team, answers are evaluated again.
func TestRule86_NewAttempt(t *testing.T) {
	t.Parallel()
	p := newPlayer(critical(func(c *Config) { c.MaxRestarts = 1 }, "a"))
	p.drain()
	p.batch(p.answer("a"))
	p.batch(p.critique("a", converged))
	p.batch(p.vote("a", "a"))
	commands := p.batch(p.evaluate("a", true))
	require.Equal(t, []Purpose{Coordinate}, purposes(commands))
	require.Equal(t, []string{"a"}, evaluated(p.batch(p.answer("a"))))
	require.True(t, slices.ContainsFunc(p.state.Timeline(), func(e Entry) bool {
		return e.Kind == EntryCritiqued && e.Text == "the evaluation of agent1.1: converged"
	}))
}

package coordination_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// agreed plays a session until its agents have answered and, where they vote, voted
// for the first of them. It returns the commands of the consensus.
func agreed(config c.Config) (*player, []c.Command) {
	p := answered(config)
	for _, id := range config.Agents {
		if slices.Contains(p.last(id).Offered, c.Vote) {
			p.step(p.vote(id, config.Agents[0]))
		}
	}
	return p, p.drain()
}

// 44. Seed 001, finalization: "Presenter selected (vote winner or configured
// decomposition presenter)"; "skip_final_presentation can short-circuit the extra
// presentation LLM call in compatible modes". An empty presenter means no
// presentation.
func TestRule44_Presenter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(*c.Config)
		want string
	}{
		"winner_reuse":                     {func(*c.Config) {}, ""},
		"winner_present":                   {func(o *c.Config) { o.Strategy = c.WinnerPresent }, "b"},
		"synthesize":                       {func(o *c.Config) { o.Strategy = c.Synthesize }, "b"},
		"synthesize by somebody":           {func(o *c.Config) { o.Strategy, o.Presenter = c.Synthesize, "a" }, "a"},
		"reused, the presenter or not":     {func(o *c.Config) { o.Presenter = "a" }, ""},
		"skipped":                          {func(o *c.Config) { o.SkipPresentation = true }, ""},
		"synthesize is not to be skipped":  {func(o *c.Config) { o.Strategy, o.SkipPresentation = c.Synthesize, true }, "b"},
		"nor is winner_present":            {func(o *c.Config) { o.Strategy, o.SkipPresentation = c.WinnerPresent, true }, "b"},
		"skip_voting, reused":              {func(o *c.Config) { o.SkipVoting = true }, ""},
		"skip_voting, presented":           {func(o *c.Config) { o.SkipVoting, o.Strategy = true, c.WinnerPresent }, "b"},
		"skip_voting, skipped":             {func(o *c.Config) { o.SkipVoting, o.Strategy, o.SkipPresentation = true, c.WinnerPresent, true }, ""},
		"synthesize without votes":         {func(o *c.Config) { o.AnswersPerAgent, o.Strategy = 1, c.Synthesize }, "b"},
		"that cannot be skipped either":    {func(o *c.Config) { o.AnswersPerAgent, o.Strategy, o.SkipPresentation = 1, c.Synthesize, true }, "b"},
		"decomposition":                    {func(o *c.Config) { o.Mode, o.AnswersGlobal = c.Decomposition, 3 }, "c"},
		"decomposition, presenter":         {func(o *c.Config) { o.Mode, o.AnswersGlobal, o.Presenter = c.Decomposition, 3, "a" }, "a"},
		"decomposition, reused":            {func(o *c.Config) { o.Mode, o.AnswersGlobal, o.SkipPresentation = c.Decomposition, 3, true }, ""},
		"decomposition, all the same":      {func(o *c.Config) { o.Mode, o.AnswersGlobal, o.Strategy = c.Decomposition, 3, c.WinnerPresent }, "c"},
		"a presenter who is not of a team": {func(o *c.Config) { o.Strategy, o.Presenter = c.Synthesize, "x" }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(test.set, "b", "a", "c"))
			require.Equal(t, test.want == "", p.state.Done())
			require.Equal(t, test.want, p.latestLaunched(c.Present))
		})
	}
}

// 44. A failed presenter is replaced by the next candidate.
func TestRule44_PresenterHasFailed(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *c.Config) { o.Strategy, o.Presenter = c.Synthesize, "c" }, "a", "b", "c"))
	p.batch(p.fail("c"))
	p.batch(p.vote("a", "b"), p.vote("b", "b"))
	require.Equal(t, "b", p.latestLaunched(c.Present), "the winner instead of presenter_agent")

	p = answered(teamWith(decomposed, "a", "b", "c"))
	p.batch(p.fail("c"))
	p.batch(p.stop("a", c.Complete), p.stop("b", c.Complete))
	require.Equal(t, "b", p.latestLaunched(c.Present), "the one configured before")

	p = answered(teamWith(func(o *c.Config) { o.Strategy = c.WinnerPresent }, "a", "b", "c"))
	p.batch(p.fail("c"))
	d := decision(t, p.batch(p.vote("a", "c"), p.vote("b", "c")))
	require.Equal(t, "c", d.Winner)
	require.Nil(t, d.Final, "nobody speaks for a winner that has failed")
}

// 44. DESIGN: a forced decision lacks the time, money or steps to present it.
func TestRule44_ForcedDecisionsAreNotPresented(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *c.Config) {
		o.Strategy, o.MaxStepsPerAgent, o.Budget.Tokens, o.MaxRestarts = c.WinnerPresent, 2, 10, 1
	}, "a", "b")
	p := answered(config)
	require.Equal(t, c.Finished, decision(t, p.batch(c.Finish{})).Status)
	p = answered(config)
	require.Equal(t, c.Timeout, decision(t, p.batch(c.TimeUp{})).Status)
	p = answered(config)
	require.Equal(t, c.Limit, decision(t, p.batch(p.vote("a", "a"), p.exhaust("b"))).Status)
	p = answered(config)
	require.Equal(t, c.OverSpent, decision(t, p.batch(p.exhaust("a"), spending(p.exhaust("b"), 10))).Status)
	p = answered(config)
	d := decision(t, p.batch(spending(p.vote("a", "a"), 10), p.vote("b", "a")))
	require.Equal(t, c.Consensus, d.Status)
	require.Nil(t, d.Final, "a consensus with the last of the money is not presented either")
}

// 45. Seed 001: "Presenter runs with final-presentation instructions and
// new_answer-only workflow tool"; with synthesize, its brief names the winner and the
// reasons.
func TestRule45_ThePresentersLaunch(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *c.Config) {
		o.Strategy, o.OnSplit, o.MaxStepsPerAgent = c.Synthesize, c.SplitPlurality, 2
	}, "d", "c", "b", "a"))
	for voter, target := range map[string]string{"a": "c", "b": "c", "c": "d", "d": "d"} {
		vote := p.vote(voter, target).(c.Voted)
		vote.Reason = voter + "'s reason"
		p.step(vote)
	}
	l := theLaunch(t, p.drain())
	require.Equal(t, c.Present, l.Purpose)
	require.Equal(t, answerOnly, l.Offered)
	require.Len(t, l.Shown, 4)
	require.Zero(t, l.Updates)
	require.Equal(t, c.Brief{
		Strategy: c.Synthesize, Label: "agent3.1", Votes: 2, Voters: 4, Tied: true, Reasons: []string{"a's reason", "b's reason"},
	}, *l.Brief, "votes of others break the tie; only the winner's voters say why, in the order of the numbers")
	require.Equal(t, "c", l.Agent)
	require.Equal(t, c.PhasePresenting, p.state.View().Phase)

	commands := p.batch(p.answer("c"))
	require.Equal(t, "agent3.final", only[c.Record](commands)[0].Entry.Label, "a third step, above the limit of two")
	d := decision(t, commands)
	require.Equal(t, c.Plurality, d.Status)
	require.Equal(t, "agent3.1", d.WinnerLabel)
	require.Equal(t, c.Shown{Agent: "c", Number: 3, Label: "agent3.final", Step: 3}, *d.Final)
}

// 45. Seed 001: the brief of decomposition's presenter has the stops of the owners of
// the parts.
func TestRule45_DecompositionsPresenter(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "b", "a"))
	l := theLaunch(t, p.batch(p.stop("b", c.Blocked), p.stop("a", c.Complete)))
	require.Equal(t, "a", l.Agent)
	require.Equal(t, []c.StopNote{
		{Number: 1, Status: c.Complete, Summary: "a's part"}, {Number: 2, Status: c.Blocked, Summary: "b's part"},
	}, l.Brief.Stops)
	require.Empty(t, l.Brief.Label, "nothing was decided by votes")
	d := decision(t, p.batch(p.answer("a")))
	require.Equal(t, c.Presented, d.Status)
	require.Equal(t, "a", d.Winner)
	require.Equal(t, "agent1.final", d.WinnerLabel, "its winner is the presenter")
}

// 45. Seed 001: "submitted snapshots are never overwritten by incomplete in-flight
// workspace content": without a presented answer the winning answer stands.
func TestRule45_FailedPresentation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player) c.Event{
		"fails":           func(p *player) c.Event { return p.fail("a") },
		"spends too much": func(p *player) c.Event { return p.exhaust("a") },
		"votes":           func(p *player) c.Event { return p.vote("a", "b") },
		"stops":           func(p *player) c.Event { return p.stop("a", c.Complete) },
		"restarts":        func(p *player) c.Event { return p.restart("a") },
		"judges":          func(p *player) c.Event { return p.evaluate("a", true) },
		"an old number":   func(p *player) c.Event { return c.Answered{End: c.End{Launch: p.latest["a"], Step: 2}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy = c.WinnerPresent }, "a", "b"))
			commands := p.batch(end(p))
			require.Empty(t, only[c.Record](commands))
			require.Equal(t, c.Decision{
				Status: c.Consensus, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []c.Count{{Target: "a", Votes: 2}},
			}, decision(t, commands))
		})
	}
}

// 45. DESIGN: with park the session also waits for its presenter, and goes on with the
// presenting step.
func TestRule45_PresenterIsParkedFor(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy, o.OnAgentFailure = c.WinnerPresent, "park" }, "a", "b"))
	token := tokenOf(p.latest["a"])
	require.Empty(t, p.batch(p.fail("a")))
	require.NotNil(t, p.state.View().Parked)
	l := theLaunch(t, p.batch(c.Retry{Agent: "a"}))
	require.Equal(t, c.Present, l.Purpose)
	require.Equal(t, token, l.ResumeFrom)
	require.NotNil(t, l.Brief)
	require.Equal(t, "agent1.final", decision(t, p.batch(p.answer("a"))).Final.Label)
}

// 45. A paused presenting step goes on after the pause.
func TestRule45_PresentingIsPaused(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy = c.WinnerPresent }, "a", "b"))
	require.Len(t, only[c.Cancel](p.batch(c.Pause{})), 1)
	require.Empty(t, p.batch(p.suspend("a")))
	l := theLaunch(t, p.batch(c.Resume{}))
	require.Equal(t, c.Present, l.Purpose)
	require.NotEmpty(t, l.ResumeFrom)
}

func restartable(o *c.Config) { o.MaxRestarts = 1 }

// 46. Seed 001: "Optional post-evaluation may trigger orchestration restart attempts
// (bounded by max_orchestration_restarts)."
func TestRule46_Evaluation(t *testing.T) {
	t.Parallel()
	p, commands := agreed(teamWith(restartable, "a", "b"))
	l := theLaunch(t, commands)
	require.Equal(t, c.Evaluate, l.Purpose)
	require.Equal(t, "a", l.Agent)
	require.Equal(t, []c.Action{c.Submit, c.RestartTeam}, l.Offered)
	require.Equal(t, c.Shown{Agent: "a", Number: 1, Label: "agent1.1", Step: 1}, *l.Final)
	require.Equal(t, c.PhasePresenting, p.state.View().Phase)
	require.Equal(t, c.Consensus, decision(t, p.batch(p.evaluate("a", false))).Status)
}

// 46. The presenter judges its own answer; without restarts there is no judgement.
func TestRule46_ThePresenterJudges(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy, o.Presenter, o.MaxRestarts = c.Synthesize, "b", 1 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("b")))
	require.Equal(t, "b", l.Agent)
	require.Equal(t, "agent2.final", l.Final.Label)

	p, _ = agreed(team("a", "b"))
	require.True(t, p.state.Done())
}

// 46. Without a presented answer the winning one is judged; without a judgement it is
// submitted.
func TestRule46_FailedEvaluation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player) c.Event{
		"fails":           func(p *player) c.Event { return p.fail("a") },
		"spends too much": func(p *player) c.Event { return p.exhaust("a") },
		"answers":         func(p *player) c.Event { return p.answer("a") },
		"an old number":   func(p *player) c.Event { return c.Evaluated{End: c.End{Launch: p.latest["a"], Step: 1}, Again: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy, o.MaxRestarts = c.WinnerPresent, 1 }, "a", "b"))
			l := theLaunch(t, p.batch(p.exhaust("a")))
			require.Equal(t, c.Evaluate, l.Purpose)
			require.Equal(t, "agent1.1", l.Final.Label)
			d := decision(t, p.batch(end(p)))
			require.Equal(t, c.Consensus, d.Status)
			require.Equal(t, "agent1.1", d.WinnerLabel)
		})
	}
}

// 48. DESIGN: a forced decision "is taken, marked as such": with the presented answer,
// or else the winning one.
func TestRule48_ForcedInTheFinale(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *c.Config) { o.Strategy, o.MaxRestarts = c.WinnerPresent, 1 }, "a", "b")
	p, _ := agreed(config)
	commands := p.batch(c.TimeUp{})
	require.Equal(t, []c.Cancel{{ID: p.latest["a"]}}, only[c.Cancel](commands))
	d := decision(t, commands)
	require.Equal(t, c.Timeout, d.Status)
	require.Equal(t, "agent1.1", d.WinnerLabel)
	require.Nil(t, d.Final)

	p, _ = agreed(config)
	p.batch(p.answer("a"))
	d = decision(t, p.batch(c.Finish{}))
	require.Equal(t, c.Finished, d.Status)
	require.Equal(t, "agent1.final", d.Final.Label)
}

// 48. A spent budget leaves an existing decision as it is.
func TestRule48_BudgetSpentInTheFinale(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.Strategy, o.MaxRestarts, o.Budget.Tokens = c.WinnerPresent, 1, 10 }, "a", "b"))
	d := decision(t, p.batch(spending(p.answer("a"), 10)))
	require.Equal(t, c.Consensus, d.Status)
	require.Equal(t, "agent1.final", d.Final.Label)
}

// 47. Seed 001: "optional post-evaluation/restart decision": answers, votes and stops
// of the earlier attempt no longer count, steps and labels go on, and every step is
// told the attempt's answer and whose commit has the reason.
func TestRule47_BeginAgain(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.MaxRestarts, o.MaxStepsPerAgent = 2, 2 }, "a", "b"))
	commands := p.batch(p.evaluate("a", true))
	first := c.Attempt{Number: 1, Answer: c.Shown{Agent: "a", Number: 1, Label: "agent1.1", Step: 1}, Agent: "a", Step: 3}
	require.Equal(t, []string{"a", "b"}, launched(commands), "both have all their steps again")
	for _, l := range launches(commands) {
		require.Equal(t, first, *l.Previous)
		require.Empty(t, l.Shown, "first answers are worked out alone, once more")
		require.Equal(t, answerOnly, l.Offered)
	}
	require.Equal(t, 3, p.last("a").After)
	view := p.state.View()
	require.Equal(t, 2, view.Attempt)
	require.Empty(t, view.Votes)
	require.EqualValues(t, "no_action", view.Agents[0].Status)

	entry := only[c.Record](p.batch(p.answer("a"), p.answer("b")))[0].Entry
	require.Equal(t, "agent1.2", entry.Label)
	require.Equal(t, 2, p.last("a").Answers, "labels count on")
	require.Equal(t, 1, p.last("a").Given, "limits do not")
	require.Equal(t, 2, entry.Attempt)
	l := theLaunch(t, p.batch(p.vote("a", "b"), p.vote("b", "b")))
	require.Equal(t, c.Evaluate, l.Purpose)
	require.Equal(t, first, *l.Previous, "whoever judges the second knows of the first")
	p.batch(p.evaluate("b", true))
	require.Equal(t, 2, p.last("a").Previous.Number)
	require.Equal(t, "agent2.2", p.last("a").Previous.Answer.Label)
}

// 47. "bounded by max_orchestration_restarts": the attempt after the last restart is
// not judged, so a team that always rejects its answer ends.
func TestRule47_AttemptsAreBounded(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.MaxRestarts = 3 }, "a", "b"))
	attempts := 1
	for !p.state.Done() {
		p.batch(p.evaluate("a", true))
		attempts++
		require.Equal(t, attempts, p.state.View().Attempt)
		p.batch(p.answer("a"), p.answer("b"))
		p.batch(p.vote("a", "a"), p.vote("b", "a"))
	}
	require.Equal(t, 1+3, attempts)
	require.Equal(t, "agent1.4", p.state.Decision().WinnerLabel)
}

// 47. Seed 001, snapshot preservation: an incomplete attempt never overwrites a
// submitted answer: the last decision stands.
func TestRule47_TheEarlierAnswerIsNeverLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play func(p *player) []c.Command
		want c.Status
	}{
		"nobody is left":    {func(p *player) []c.Command { return p.batch(p.fail("a"), p.fail("b")) }, c.Consensus},
		"finish":            {func(p *player) []c.Command { return p.batch(c.Finish{}) }, c.Finished},
		"time is up":        {func(p *player) []c.Command { return p.batch(c.TimeUp{}) }, c.Timeout},
		"the money is gone": {func(p *player) []c.Command { return p.batch(spending(p.exhaust("a"), 99), p.exhaust("b")) }, c.OverSpent},
		"the steps are gone": {func(p *player) []c.Command {
			for range 2 {
				p.batch(p.exhaust("a"), p.exhaust("b"))
			}
			return p.batch(p.exhaust("a"), p.exhaust("b"))
		}, c.Limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *c.Config) {
				o.Strategy, o.MaxRestarts, o.MaxStepsPerAgent, o.Budget.Tokens = c.WinnerPresent, 2, 3, 99
			}, "a", "b"))
			p.batch(p.answer("a"))
			p.batch(p.evaluate("a", true))
			require.Equal(t, c.Decision{
				Status: test.want, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []c.Count{{Target: "a", Votes: 2}},
				Final: &c.Shown{Agent: "a", Number: 1, Label: "agent1.final", Step: 3},
			}, decision(t, test.play(p)))
		})
	}
}

// 47. The earlier answer also stands, and is not presented again, if the second
// attempt ends split or with every part blocked.
func TestRule47_SplitOrBlockedAttemptKeepsTheEarlierAnswer(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *c.Config) { o.OnSplit, o.MaxRestarts = c.SplitFail, 1 }, "a", "b"))
	p.batch(p.evaluate("a", true))
	p.batch(p.answer("a"), p.answer("b"))
	d := decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b")))
	require.Equal(t, c.Consensus, d.Status)
	require.Equal(t, "agent1.1", d.WinnerLabel)

	p = answered(teamWith(func(o *c.Config) { o.Mode, o.MaxRestarts = c.Decomposition, 2 }, "a", "b"))
	p.batch(p.stop("a", c.Complete), p.stop("b", c.Complete))
	p.batch(p.answer("b"))
	p.batch(p.evaluate("b", true))
	d = decision(t, p.batch(p.stop("a", c.Blocked), p.stop("b", c.Blocked)))
	require.Equal(t, c.Presented, d.Status)
	require.Equal(t, "agent2.final", d.Final.Label)
}

// 47. An answer of the new attempt replaces the earlier one.
func TestRule47_NewAnswerWins(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(restartable, "a", "b"))
	p.batch(p.evaluate("a", true))
	require.Equal(t, "agent2.2", decision(t, p.batch(p.answer("b"), c.Finish{})).WinnerLabel)
}

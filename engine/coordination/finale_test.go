package coordination

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// agreed plays a session until its agents have answered and, if they vote, have voted for the first
// of them. It returns the commands of the consensus.
func agreed(config Config) (*player, []Command) {
	p := answered(config)
	for _, id := range config.Agents {
		if slices.Contains(p.last(id).Offered, Vote) {
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
		set  func(*Config)
		want string
	}{
		"winner_reuse":                     {func(*Config) {}, ""},
		"winner_present":                   {func(o *Config) { o.Strategy = winnerPresent }, "b"},
		"synthesize":                       {func(o *Config) { o.Strategy = synthesize }, "b"},
		"synthesize by another":            {func(o *Config) { o.Strategy, o.Presenter = synthesize, "a" }, "a"},
		"reused, the presenter or not":     {func(o *Config) { o.Presenter = "a" }, ""},
		"skipped":                          {func(o *Config) { o.SkipPresentation = true }, ""},
		"synthesize is not to be skipped":  {func(o *Config) { o.Strategy, o.SkipPresentation = synthesize, true }, "b"},
		"nor is winner_present":            {func(o *Config) { o.Strategy, o.SkipPresentation = winnerPresent, true }, "b"},
		"skip_voting, reused":              {func(o *Config) { o.SkipVoting = true }, ""},
		"skip_voting, presented":           {func(o *Config) { o.SkipVoting, o.Strategy = true, winnerPresent }, "b"},
		"skip_voting, skipped":             {func(o *Config) { o.SkipVoting, o.Strategy, o.SkipPresentation = true, winnerPresent, true }, ""},
		"synthesize without votes":         {func(o *Config) { o.AnswersPerAgent, o.Strategy = 1, synthesize }, "b"},
		"that cannot be skipped either":    {func(o *Config) { o.AnswersPerAgent, o.Strategy, o.SkipPresentation = 1, synthesize, true }, "b"},
		"decomposition":                    {func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 3 }, "c"},
		"decomposition, presenter":         {func(o *Config) { o.Mode, o.AnswersGlobal, o.Presenter = Decomposition, 3, "a" }, "a"},
		"decomposition, reused":            {func(o *Config) { o.Mode, o.AnswersGlobal, o.SkipPresentation = Decomposition, 3, true }, ""},
		"decomposition, all the same":      {func(o *Config) { o.Mode, o.AnswersGlobal, o.Strategy = Decomposition, 3, winnerPresent }, "c"},
		"a presenter who is not of a team": {func(o *Config) { o.Strategy, o.Presenter = synthesize, "x" }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(test.set, "b", "a", "c"))
			require.Equal(t, test.want == "", p.state.Done())
			require.Equal(t, test.want, p.latestLaunched(Present))
		})
	}
}

// 44. A failed presenter is replaced by the next candidate.
func TestRule44_PresenterHasFailed(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Strategy, o.Presenter = synthesize, "c" }, "a", "b", "c"))
	p.batch(p.fail("c"))
	p.batch(p.vote("a", "b"), p.vote("b", "b"))
	require.Equal(t, "b", p.latestLaunched(Present), "the winner instead of presenter_agent")

	p = answered(teamWith(decomposed, "a", "b", "c"))
	p.batch(p.fail("c"))
	p.batch(p.stop("a", Complete), p.stop("b", Complete))
	require.Equal(t, "b", p.latestLaunched(Present), "the one configured before")

	p = answered(teamWith(func(o *Config) { o.Strategy = winnerPresent }, "a", "b", "c"))
	p.batch(p.fail("c"))
	d := decision(t, p.batch(p.vote("a", "c"), p.vote("b", "c")))
	require.Equal(t, "c", d.Winner)
	require.Nil(t, d.Final, "nobody speaks for a winner that has failed")
}

// 44. DESIGN: forced decisions are not presented, because time, money or steps are missing.
func TestRule44_ForcedDecisionsAreNotPresented(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) {
		o.Strategy, o.MaxStepsPerAgent, o.Budget.Tokens, o.MaxRestarts = winnerPresent, 2, 10, 1
	}, "a", "b")
	p := answered(config)
	require.Equal(t, Finished, decision(t, p.batch(Finish{})).Status)
	p = answered(config)
	require.Equal(t, Timeout, decision(t, p.batch(TimeUp{})).Status)
	p = answered(config)
	require.Equal(t, Limit, decision(t, p.batch(p.vote("a", "a"), p.exhaust("b"))).Status)
	p = answered(config)
	require.Equal(t, OverSpent, decision(t, p.batch(p.exhaust("a"), spending(p.exhaust("b"), 10))).Status)
	p = answered(config)
	d := decision(t, p.batch(spending(p.vote("a", "a"), 10), p.vote("b", "a")))
	require.Equal(t, Consensus, d.Status)
	require.Nil(t, d.Final, "a consensus with the last of the money is not presented either")
}

// 45. Seed 001: "Presenter runs with final-presentation instructions and
// new_answer-only workflow tool"; with synthesize, its brief names the winner and the
// reasons.
func TestRule45_ThePresentersLaunch(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) {
		o.Strategy, o.OnSplit, o.MaxStepsPerAgent = synthesize, splitPlurality, 2
	}, "d", "c", "b", "a"))
	for voter, target := range map[string]string{"a": "c", "b": "c", "c": "d", "d": "d"} {
		vote := p.vote(voter, target).(Voted)
		vote.Reason = voter + "'s reason"
		p.step(vote)
	}
	l := theLaunch(t, p.drain())
	require.Equal(t, Present, l.Purpose)
	require.Equal(t, answerOnly, l.Offered)
	require.Len(t, l.Shown, 4)
	require.Zero(t, l.Updates)
	require.Equal(t, Brief{
		Strategy: synthesize, Label: "agent3.1", Votes: 2, Voters: 4, Tied: true, Reasons: []string{"a's reason", "b's reason"},
	}, *l.Brief, "votes of others break the tie; only the winner's voters say why, in the order of the numbers")
	require.Equal(t, "c", l.Agent)
	require.Equal(t, PhasePresenting, p.state.View().Phase)

	commands := p.batch(p.answer("c"))
	require.Equal(t, "agent3.final", only[Record](commands)[0].Entry.Label, "a third step, above the limit of two")
	d := decision(t, commands)
	require.Equal(t, Plurality, d.Status)
	require.Equal(t, "agent3.1", d.WinnerLabel)
	require.Equal(t, Shown{Agent: "c", Number: 3, Label: "agent3.final", Step: 3}, *d.Final)
}

// 45. Seed 001: the brief for the presenter in decomposition contains the stops of the agents that
// own the parts.
func TestRule45_DecompositionsPresenter(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "b", "a"))
	l := theLaunch(t, p.batch(p.stop("b", Blocked), p.stop("a", Complete)))
	require.Equal(t, "a", l.Agent)
	require.Equal(t, []StopNote{
		{Number: 1, Status: Complete, Summary: "a's part"}, {Number: 2, Status: Blocked, Summary: "b's part"},
	}, l.Brief.Stops)
	require.Empty(t, l.Brief.Label, "nothing was decided by votes")
	d := decision(t, p.batch(p.answer("a")))
	require.Equal(t, Presented, d.Status)
	require.Equal(t, "a", d.Winner)
	require.Equal(t, "agent1.final", d.WinnerLabel, "its winner is the presenter")
}

// 45. Seed 001: "submitted snapshots are never overwritten by incomplete in-flight workspace
// content". Without a presented answer the winning answer is the result.
func TestRule45_FailedPresentation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player) Event{
		"fails":           func(p *player) Event { return p.fail("a") },
		"spends too much": func(p *player) Event { return p.exhaust("a") },
		"votes":           func(p *player) Event { return p.vote("a", "b") },
		"stops":           func(p *player) Event { return p.stop("a", Complete) },
		"restarts":        func(p *player) Event { return p.restart("a") },
		"judges":          func(p *player) Event { return p.evaluate("a", true) },
		"an old number":   func(p *player) Event { return Answered{End: End{Launch: p.latest["a"], Step: 2}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *Config) { o.Strategy = winnerPresent }, "a", "b"))
			commands := p.batch(end(p))
			require.Empty(t, only[Record](commands))
			require.Equal(t, Decision{
				Status: Consensus, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []count{{Target: "a", Votes: 2}},
				Voters: []string{"a", "b"},
			}, decision(t, commands))
		})
	}
}

// 45. DESIGN: with park the session also waits for its presenter, and then continues with the
// presenting step.
func TestRule45_PresenterIsParkedFor(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy, o.OnAgentFailure = winnerPresent, "park" }, "a", "b"))
	token := tokenOf(p.latest["a"])
	require.Empty(t, p.batch(p.fail("a")))
	require.NotNil(t, p.state.View().Parked)
	l := theLaunch(t, p.batch(Retry{Agent: "a"}))
	require.Equal(t, Present, l.Purpose)
	require.Equal(t, token, l.ResumeFrom)
	require.NotNil(t, l.Brief)
	require.Equal(t, "agent1.final", decision(t, p.batch(p.answer("a"))).Final.Label)
}

// 45. A paused presenting step is resumed after the pause.
func TestRule45_PresentingIsPaused(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy = winnerPresent }, "a", "b"))
	require.Len(t, only[Cancel](p.batch(Pause{})), 1)
	require.Empty(t, p.batch(p.suspend("a")))
	l := theLaunch(t, p.batch(Resume{}))
	require.Equal(t, Present, l.Purpose)
	require.NotEmpty(t, l.ResumeFrom)
}

func restartable(o *Config) { o.MaxRestarts = 1 }

// 46. Seed 001: "Optional post-evaluation may trigger orchestration restart attempts
// (bounded by max_orchestration_restarts)."
func TestRule46_Evaluation(t *testing.T) {
	t.Parallel()
	p, commands := agreed(teamWith(restartable, "a", "b"))
	l := theLaunch(t, commands)
	require.Equal(t, Evaluate, l.Purpose)
	require.Equal(t, "a", l.Agent)
	require.Equal(t, []Action{Submit, RestartTeam}, l.Offered)
	require.Equal(t, Shown{Agent: "a", Number: 1, Label: "agent1.1", Step: 1}, *l.Final)
	require.Equal(t, PhasePresenting, p.state.View().Phase)
	require.Equal(t, Consensus, decision(t, p.batch(p.evaluate("a", false))).Status)
}

// 46. The presenter judges its own answer. If no restarts are allowed, there is no judgement.
func TestRule46_ThePresenterJudges(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy, o.Presenter, o.MaxRestarts = synthesize, "b", 1 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("b")))
	require.Equal(t, "b", l.Agent)
	require.Equal(t, "agent2.final", l.Final.Label)

	p, _ = agreed(team("a", "b"))
	require.True(t, p.state.Done())
}

// 46. If no answer is presented, the winning one is judged. Without a judgement it counts as
// submitted.
func TestRule46_FailedEvaluation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player) Event{
		"fails":           func(p *player) Event { return p.fail("a") },
		"spends too much": func(p *player) Event { return p.exhaust("a") },
		"answers":         func(p *player) Event { return p.answer("a") },
		"an old number":   func(p *player) Event { return Evaluated{End: End{Launch: p.latest["a"], Step: 1}, Again: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *Config) { o.Strategy, o.MaxRestarts = winnerPresent, 1 }, "a", "b"))
			l := theLaunch(t, p.batch(p.exhaust("a")))
			require.Equal(t, Evaluate, l.Purpose)
			require.Equal(t, "agent1.1", l.Final.Label)
			d := decision(t, p.batch(end(p)))
			require.Equal(t, Consensus, d.Status)
			require.Equal(t, "agent1.1", d.WinnerLabel)
		})
	}
}

// 48. DESIGN: a forced decision "is taken, marked as such". Its answer is the presented one or,
// without it, the winning one.
func TestRule48_ForcedInTheFinale(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) { o.Strategy, o.MaxRestarts = winnerPresent, 1 }, "a", "b")
	p, _ := agreed(config)
	commands := p.batch(TimeUp{})
	require.Equal(t, []Cancel{{ID: p.latest["a"]}}, only[Cancel](commands))
	d := decision(t, commands)
	require.Equal(t, Timeout, d.Status)
	require.Equal(t, "agent1.1", d.WinnerLabel)
	require.Nil(t, d.Final)

	p, _ = agreed(config)
	p.batch(p.answer("a"))
	d = decision(t, p.batch(Finish{}))
	require.Equal(t, Finished, d.Status)
	require.Equal(t, "agent1.final", d.Final.Label)
}

// 48. A spent budget does not change an existing decision.
func TestRule48_BudgetSpentInTheFinale(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy, o.MaxRestarts, o.Budget.Tokens = winnerPresent, 1, 10 }, "a", "b"))
	d := decision(t, p.batch(spending(p.answer("a"), 10)))
	require.Equal(t, Consensus, d.Status)
	require.Equal(t, "agent1.final", d.Final.Label)
}

// 47. Seed 001: "optional post-evaluation/restart decision". Answers, votes and stops of the
// earlier attempt no longer count, steps and labels continue to be numbered, and every step is
// shown the attempt's answer and the step whose commit contains the reason.
func TestRule47_BeginAgain(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.MaxRestarts, o.MaxStepsPerAgent = 2, 2 }, "a", "b"))
	commands := p.batch(p.evaluate("a", true))
	first := RejectedAnswer{Number: 1, Answer: Shown{Agent: "a", Number: 1, Label: "agent1.1", Step: 1}, Agent: "a", Step: 3}
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
	require.Equal(t, "no_action", view.Agents[0].Status)

	entry := only[Record](p.batch(p.answer("a"), p.answer("b")))[0].Entry
	require.Equal(t, "agent1.2", entry.Label)
	require.Equal(t, 2, p.last("a").Answers, "labels count on")
	require.Equal(t, 1, p.last("a").Given, "limits do not")
	require.Equal(t, 2, entry.Attempt)
	l := theLaunch(t, p.batch(p.vote("a", "b"), p.vote("b", "b")))
	require.Equal(t, Evaluate, l.Purpose)
	require.Equal(t, first, *l.Previous, "whoever judges the second knows of the first")
	p.batch(p.evaluate("b", true))
	require.Equal(t, 2, p.last("a").Previous.Number)
	require.Equal(t, "agent2.2", p.last("a").Previous.Answer.Label)
}

// 47. "bounded by max_orchestration_restarts": the attempt after the last restart is
// not judged, so a team that always rejects its answer ends.
func TestRule47_AttemptsAreBounded(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.MaxRestarts = 3 }, "a", "b"))
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

// 47. Seed 001, snapshot preservation: an incomplete attempt never replaces a submitted answer. The
// last decision is kept.
func TestRule47_TheEarlierAnswerIsNeverLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play func(p *player) []Command
		want Status
	}{
		"nobody is left":    {func(p *player) []Command { return p.batch(p.fail("a"), p.fail("b")) }, Consensus},
		"finish":            {func(p *player) []Command { return p.batch(Finish{}) }, Finished},
		"time is up":        {func(p *player) []Command { return p.batch(TimeUp{}) }, Timeout},
		"the money is gone": {func(p *player) []Command { return p.batch(spending(p.exhaust("a"), 99), p.exhaust("b")) }, OverSpent},
		"the steps are gone": {func(p *player) []Command {
			for range 2 {
				p.batch(p.exhaust("a"), p.exhaust("b"))
			}
			return p.batch(p.exhaust("a"), p.exhaust("b"))
		}, Limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := agreed(teamWith(func(o *Config) {
				o.Strategy, o.MaxRestarts, o.MaxStepsPerAgent, o.Budget.Tokens = winnerPresent, 2, 3, 99
			}, "a", "b"))
			p.batch(p.answer("a"))
			p.batch(p.evaluate("a", true))
			require.Equal(t, Decision{
				Status: test.want, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []count{{Target: "a", Votes: 2}},
				Final:  &Shown{Agent: "a", Number: 1, Label: "agent1.final", Step: 3},
				Voters: []string{"a", "b"}, Earlier: true,
			}, decision(t, test.play(p)))
		})
	}
}

// 47. The earlier answer is also kept, and not presented again, if the second attempt ends split or
// with every part blocked.
func TestRule47_SplitOrBlockedAttemptKeepsTheEarlierAnswer(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.OnSplit, o.MaxRestarts = SplitFail, 1 }, "a", "b"))
	p.batch(p.evaluate("a", true))
	p.batch(p.answer("a"), p.answer("b"))
	d := decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b")))
	require.Equal(t, Consensus, d.Status)
	require.Equal(t, "agent1.1", d.WinnerLabel)

	p = answered(teamWith(func(o *Config) { o.Mode, o.MaxRestarts = Decomposition, 2 }, "a", "b"))
	p.batch(p.stop("a", Complete), p.stop("b", Complete))
	p.batch(p.answer("b"))
	p.batch(p.evaluate("b", true))
	d = decision(t, p.batch(p.stop("a", Blocked), p.stop("b", Blocked)))
	require.Equal(t, Presented, d.Status)
	require.Equal(t, "agent2.final", d.Final.Label)
}

// 47. A decision of an earlier attempt reports the voters of that attempt.
func TestRule47_VotersOfTheEarlierAttempt(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(restartable, "a", "b"))
	p.batch(p.evaluate("a", true))
	p.batch(p.answer("a"), p.answer("b"))
	d := decision(t, p.batch(p.vote("a", "a"), p.fail("b")))
	require.False(t, d.Earlier, "the new attempt has answers")
	require.Equal(t, []string{"a"}, d.Voters)

	p, _ = agreed(teamWith(restartable, "a", "b"))
	p.batch(p.evaluate("a", true))
	d = decision(t, p.batch(p.fail("b"), p.fail("a")))
	require.True(t, d.Earlier)
	require.Equal(t, []string{"a", "b"}, d.Voters)
	require.Empty(t, p.state.View().Voters(), "nobody has voted in the last attempt")
}

// 47. An answer of the new attempt replaces the earlier one.
func TestRule47_NewAnswerWins(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(restartable, "a", "b"))
	p.batch(p.evaluate("a", true))
	require.Equal(t, "agent2.2", decision(t, p.batch(p.answer("b"), Finish{})).WinnerLabel)
}

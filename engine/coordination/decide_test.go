package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// 30. DESIGN: "on_agent_failure continue (the rest decide), park, or fail". The policy is applied
// before everything else, including requested decisions.
func TestRule30_FailurePolicyComesFirst(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnAgentFailure = "fail" }, "a", "b", "c"))
	commands := p.batch(Finish{}, p.vote("a", "a"), p.fail("b"))
	require.Equal(t, []Cancel{{ID: p.latest["c"]}}, only[Cancel](commands))
	d := decision(t, commands)
	require.Equal(t, FailedAll, d.Status)
	require.EqualValues(t, "AgentFailed", d.Cause)
	require.Empty(t, d.Winner)
}

// 30. Seed 001: "submitted snapshots are never overwritten by incomplete in-flight workspace
// content". The policy ends a later attempt immediately, and the decision of the earlier one is
// kept.
func TestRule30_InALaterAttempt(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.OnAgentFailure, o.MaxRestarts = "fail", 1 }, "a", "b"))
	p.batch(p.evaluate("a", true))
	commands := p.batch(p.fail("b"))
	require.Equal(t, []Cancel{{ID: p.latest["a"]}}, only[Cancel](commands), "a is not waited for")
	require.Equal(t, Decision{
		Status: Consensus, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []count{{Target: "a", Votes: 2}},
		Voters: []string{"a", "b"}, Earlier: true,
	}, decision(t, commands))
}

// 30. The policy also applies to the agent that presents or judges. The team has decided by then,
// and its answer is kept.
func TestRule30_AfterTheDecision(t *testing.T) {
	t.Parallel()
	want := Decision{
		Status: Consensus, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []count{{Target: "a", Votes: 2}},
		Voters: []string{"a", "b"},
	}
	p, _ := agreed(teamWith(func(o *Config) { o.OnAgentFailure, o.Strategy = "fail", winnerPresent }, "a", "b"))
	require.Equal(t, want, decision(t, p.batch(p.fail("a"))))

	p, _ = agreed(teamWith(func(o *Config) { o.OnAgentFailure, o.MaxRestarts = "fail", 1 }, "a", "b"))
	require.Equal(t, want, decision(t, p.batch(p.fail("a"))), "unjudged")
}

// 30. A failure in the same batch as the last vote is handled before the decision.
func TestRule30_BesideTheLastVote(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnAgentFailure, o.Strategy = "fail", winnerPresent }, "a", "b", "c"))
	require.EqualValues(t, "AgentFailed", decision(t, p.batch(p.vote("a", "a"), p.vote("b", "a"), p.fail("c"))).Cause)
}

// 31. Seed 000, consensus: "1. ALL agents have completed their current step ... 3. A
// single target has majority votes (> N/2)".
func TestRule31_Consensus(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c", "d"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "a"))
	require.False(t, p.state.Done(), "three of four, but the fourth still works")
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("d", "b"))).Status)

	p = answered(team("a", "b", "c", "d"))
	commands := p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "b"), p.vote("d", "c"))
	require.Len(t, launches(commands), 4, "half is not more than half")
}

// 31. Seed 000, consensus: "2. ALL votes are non-stale (seen_steps covers latest answers)". With
// one stale vote, a majority is not yet a consensus.
func TestRule31_NoConsensusWithAStaleVote(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	stale := p.vote("c", "a").(Voted)
	stale.Seen = nil
	require.Equal(t, []string{"c"}, launched(p.batch(p.vote("a", "a"), p.vote("b", "a"), stale)))
}

// 31. DESIGN, quiescence: the core decides "when nothing runs, nothing may be launched
// and the session is neither paused nor parked".
func TestRule31_NoConsensusWhileHeld(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "b"))
	p.batch(Pause{})
	require.Empty(t, only[Done](p.batch(p.vote("b", "b"))))
	require.Equal(t, Consensus, decision(t, p.batch(Resume{})).Status)
}

// 31, 32. DESIGN: results that are already waiting are stepped as one batch. A consensus in it
// counts even if a decision is requested.
func TestRule31_ConsensusBeforeForcedDecision(t *testing.T) {
	t.Parallel()
	for _, event := range []Event{TimeUp{}, Finish{}} {
		p := answered(team("a", "b"))
		require.Equal(t, Consensus, decision(t, p.batch(event, p.vote("a", "b"), p.vote("b", "b"))).Status)
	}
}

// 32. DESIGN: "A forced decision (time, money, steps, finish, no active agent left)". The first of
// these reasons is reported.
func TestRule32_ForcedDecision(t *testing.T) {
	t.Parallel()
	for want, events := range map[Status][]Event{
		Finished: {Finish{}, TimeUp{}},
		Timeout:  {TimeUp{}, Finish{}},
	} {
		p := answered(team("a", "b"))
		commands := p.batch(events...)
		require.Equal(t, want, decision(t, commands).Status)
		require.Empty(t, launches(commands))
		require.Len(t, only[Cancel](commands), 2)
	}
}

// 32. "marked as such": a split that would otherwise end in plurality is reported as forced.
func TestRule32_ForcedBeforePlurality(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnSplit = splitPlurality }, "a", "b"))
	require.Equal(t, Timeout, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"), TimeUp{})).Status)
}

// 33. DESIGN: "Session time stands still while parked or paused". A paused session does not decide
// because agents or money are missing.
func TestRule33_PausedDecidesNothing(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Budget.Tokens = 10 }, "a", "b"))
	p.batch(Pause{})
	p.batch(spending(p.suspend("a"), 20))
	require.Empty(t, p.batch(p.fail("b")))
	require.Empty(t, p.drain())
	require.Equal(t, OverSpent, decision(t, p.batch(Resume{})).Status)

	p = answered(team("a", "b"))
	p.batch(Pause{})
	require.Equal(t, Timeout, decision(t, p.batch(TimeUp{})).Status, "a requested decision is taken")
	require.False(t, p.state.View().Paused)
}

// 34. DESIGN, budget: "nothing new is launched, running steps are wrapped up, and the
// forced decision above is taken, marked as such".
func TestRule34_BudgetSpent(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Budget.Tokens = 1000 }, "a", "b"))
	commands := p.batch(spending(p.exhaust("a"), 2000))
	require.Len(t, commands, 1, "b may use its allowance")
	ring, ok := commands[0].(Ring)
	require.True(t, ok)
	require.Equal(t, WrapUp, ring.Directive)
	d := decision(t, p.batch(p.vote("b", "a")))
	require.Equal(t, OverSpent, d.Status)
	require.Equal(t, "a", d.Winner)
}

// 34. A call of unknown cost does not disable a limit in dollars: the known costs of all other
// calls still count, whether they are the step's or the session's.
func TestRule34_CallsOfUnknownCost(t *testing.T) {
	t.Parallel()
	half := 0.5
	uncounted, paid := llm.Usage{ModelCalls: 1}, llm.Usage{InputTokens: 9, TotalUSD: &half, ModelCalls: 1}
	for name, spent := range map[string][2]llm.Usage{
		"of another step": {uncounted, paid.Add(paid)},
		"of the same":     {paid, paid.Add(uncounted)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(teamWith(func(o *Config) { o.Budget.USD = 1 }, "a", "b"))
			p.batch(Answered{End: End{Launch: p.last("a").ID, Step: 1, Usage: spent[0]}})
			d := decision(t, p.batch(Answered{End: End{Launch: p.last("b").ID, Step: 1, Usage: spent[1]}}))
			require.Equal(t, OverSpent, d.Status)
			require.Nil(t, p.state.View().Cost.TotalUSD, "unknown, not 1")
		})
	}

	p := start(teamWith(func(o *Config) { o.Budget.USD = 2 }, "a", "b"))
	commands := p.batch(Answered{End: End{Launch: p.last("a").ID, Step: 1, Usage: paid.Add(uncounted)}}, Answered{End: End{Launch: p.last("b").ID, Step: 1, Usage: paid}})
	for _, l := range launches(commands) {
		require.InDelta(t, 0.5, l.Allowance.USD, 1e-9, "half of the rest")
	}
	require.Len(t, launches(commands), 2)
}

// 34. The last vote can still decide the session. An unknown price does not count as spending.
func TestRule34_ConsensusBeforeTheBudget(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Budget.Tokens = 10 }, "a", "b"))
	require.Equal(t, Consensus, decision(t, p.batch(spending(p.vote("a", "b"), 9), spending(p.vote("b", "b"), 9))).Status)

	p = answered(teamWith(func(o *Config) { o.Budget.USD = 1 }, "a", "b"))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(spending(p.exhaust("a"), 9), p.exhaust("b"))))
}

// 34. DESIGN: "Each launch carries a spend allowance". The rest is divided equally, and the
// allowances of running steps are not granted again.
func TestRule34_Shares(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) { o.Budget.Tokens, o.Budget.USD, o.Pacing = 900, 9, "continuous" }, "a", "b", "c")
	p := start(config)
	for _, id := range config.Agents {
		require.Equal(t, Allowance{Tokens: 300, USD: 3}, p.last(id).Allowance)
	}
	p.batch(spending(p.answer("a"), 100))
	commands := p.batch(spending(p.answer("b"), 100))
	require.Equal(t, []string{"a", "b"}, launched(commands))
	for _, l := range launches(commands) {
		require.Equal(t, int64((900-100-100-300)/2), l.Allowance.Tokens, "300 are c's")
		require.InDelta(t, 3, l.Allowance.USD, 1e-9)
	}
	require.Zero(t, start(team("a")).last("a").Allowance, "no budget, no allowance")
}

// 34. They are not granted again to resumed steps either: each has an equal share of the rest.
func TestRule34_SharesOfResumedSteps(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.Budget.Tokens = 900 }, "a", "b", "c"))
	p.batch(Pause{})
	p.batch(spending(p.suspend("a"), 200), spending(p.suspend("b"), 100), p.suspend("c"))
	promised := int64(0)
	for _, l := range launches(p.batch(Resume{})) {
		require.Equal(t, int64(200), l.Allowance.Tokens)
		promised += l.Allowance.Tokens
	}
	require.Equal(t, int64(900-300), promised)
}

// 34. Resumed steps share the rest with steps that are launched at the same time.
func TestRule34_SharesOfAllLaunchedTogether(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Budget.Tokens, o.Pacing = 900, "continuous" }, "a", "b", "c"))
	p.batch(p.vote("a", "a"))
	p.batch(Pause{})
	p.batch(p.answer("b"), p.suspend("c"))
	commands := p.batch(Resume{})
	require.Equal(t, []string{"a", "c"}, launched(commands))
	for _, l := range launches(commands) {
		require.Equal(t, int64(450), l.Allowance.Tokens)
	}
}

// 35. CONTRACT: "No fresh vote and every agent failed: failed". The best answer is named, and nobody
// has decided for it.
func TestRule35_NoActiveAgent(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]struct {
		cause cause
		set   func(*Config)
	}{
		"default":             {causeAllFailed, func(*Config) {}},
		"a presenter":         {causeAllFailed, func(c *Config) { c.Strategy = winnerPresent }},
		"a minimum of agents": {causeTooFew, func(c *Config) { c.MinActive = 2 }},
		"a minimum of votes":  {causeAllFailed, func(c *Config) { c.MinSupport = 0.5 }},
		"a spent budget":      {causeAllFailed, func(c *Config) { c.Budget.Tokens = 5 }},
		"a strict team":       {causeAgentFailed, func(c *Config) { c.OnAgentFailure = failureFail }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(teamWith(config.set, "a", "b"))
			failed := p.fail("a").(Failed)
			failed.Usage = llm.Usage{InputTokens: 9, ModelCalls: 1}
			d := decision(t, p.batch(failed, p.fail("b")))
			best := &Shown{Agent: "b", Number: 2, Label: "agent2.1", Step: 1}
			require.Equal(t, Decision{Status: FailedAll, Cause: config.cause, Votes: []count{}, Final: best}, d)
			require.False(t, d.Stands())
			presenter, _ := d.PresentedBy()
			require.Empty(t, presenter)
		})
	}
}

// 36. DESIGN, quiescence: a decision is made only "when nothing runs, nothing may be launched".
// Agents that can be launched are launched first.
func TestRule36_LaunchBeforeDeciding(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnSplit, o.Pacing = SplitFail, "continuous" }, "a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "b"))
	require.False(t, p.state.Done(), "c still works")
	require.Equal(t, []string{"c"}, launched(p.batch(p.exhaust("c"))), "and can be launched again")
	require.Equal(t, causeSplit, decision(t, p.batch(p.vote("c", "c"))).Cause)
}

// 37. CONTRACT: "max_steps_per_agent ends limit"; DESIGN: at it an agent "abstains but
// stays in N".
func TestRule37_Limit(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b"))
	d := decision(t, p.batch(p.vote("a", "a"), p.exhaust("b")))
	require.Equal(t, Limit, d.Status)
	require.Equal(t, "a", d.Winner)

	p = answered(teamWith(func(o *Config) { o.Mode, o.MaxStepsPerAgent = Decomposition, 2 }, "a", "b"))
	require.Equal(t, Limit, decision(t, p.batch(p.stop("a", Complete), p.exhaust("b"))).Status, "a part that nobody says is done")
}

// 38. CONTRACT: "skip_voting and decomposition end presented"; "Decomposition's winner is the
// presenter". If the presenter has no answer, the answer of the first configured agent counts until
// the presenter has presented.
func TestRule38_StandingAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(*Config)
		want string
	}{
		"skip_voting":            {set: func(o *Config) { o.SkipVoting = true }, want: "b"},
		"skip_voting, presenter": {set: func(o *Config) { o.SkipVoting, o.Presenter = true, "c" }, want: "c"},
		"decomposition":          {set: func(o *Config) { o.Mode, o.AnswersGlobal, o.SkipPresentation = Decomposition, 3, true }, want: "c"},
		"decomposition, presenter": {set: func(o *Config) {
			o.Mode, o.AnswersGlobal, o.SkipPresentation, o.Presenter = Decomposition, 3, true, "a"
		}, want: "a"},
		"presenter is not of them":   {set: func(o *Config) { o.SkipVoting, o.Presenter = true, "x" }, want: "b"},
		"no votes, all are the same": {set: func(o *Config) { o.AnswersPerAgent, o.Strategy, o.Presenter = 1, synthesize, "a" }, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(teamWith(test.set, "b", "a", "c"))
			if !p.state.Done() {
				require.Equal(t, test.want, p.latestLaunched(Present))
				p.batch(p.fail(test.want))
			}
			require.Equal(t, Presented, p.state.Decision().Status)
			require.Equal(t, test.want, p.state.Decision().Winner)
		})
	}
}

// 38. If the presenter has no answer, the first configured agent with an answer wins.
func TestRule38_PresenterWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.Mode, o.SkipPresentation = Decomposition, true }, "a", "b"))
	p.batch(p.answer("a"), p.stop("b", Blocked))
	require.Equal(t, "a", decision(t, p.batch(p.stop("a", Complete), p.stop("b", Blocked))).Winner)
}

// 39. DESIGN: "All fresh and split: on_split — revote relaunches everybody once (max_revotes), told
// that the vote was split but not how"; "max_revotes counts per session".
func TestRule39_Revotes(t *testing.T) {
	t.Parallel()
	for revotes := range 3 {
		p := answered(teamWith(func(o *Config) { o.MaxRevotes = revotes }, "a", "b"))
		for range revotes {
			again := launches(p.batch(p.vote("a", "a"), p.vote("b", "b")))
			require.Len(t, again, 2)
			require.True(t, again[0].Revote)
			require.True(t, again[1].Revote)
		}
		require.Equal(t, Plurality, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"))).Status)
	}
}

// 39. Only agents below the limit vote again. If there are no such agents, the session ends with
// limit.
func TestRule39_RevoteBelowTheStepLimit(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 3 }, "a", "b"))
	missed := Voted{End: End{Launch: p.latest["a"], Step: 2}, Choice: Choice{Target: "a"}}
	p.batch(missed, p.vote("b", "b"))
	commands := p.batch(p.vote("a", "a"))
	require.Equal(t, []string{"b"}, launched(commands), "a has had its three steps")

	p = answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b"))
	require.Equal(t, Limit, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"))).Status)
}

// 39. CONTRACT: "on_split: revote | plurality | fail: all votes fresh, no majority".
func TestRule39_OnSplit(t *testing.T) {
	t.Parallel()
	for split, want := range map[string]Status{splitPlurality: Plurality, SplitFail: FailedAll} {
		p := answered(teamWith(func(o *Config) { o.OnSplit = split }, "a", "b"))
		require.Equal(t, want, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"))).Status)
	}
}

// 43. DESIGN: a decision cancels running steps, and no command follows it.
func TestRule43_NothingFollows(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "a"))
	commands := p.batch(Finish{})
	require.Equal(t, []Cancel{{ID: p.latest["b"]}}, only[Cancel](commands))
	d := only[Done](commands)[0].Decision
	require.Empty(t, p.batch(
		p.vote("b", "b"), p.answer("a"), TimeUp{}, Finish{}, Pause{}, Resume{}, Retry{},
		Said{Text: "too late"}, TimeShort{},
	))
	require.True(t, p.state.Done())
	require.Equal(t, d, p.state.Decision())
	require.Len(t, p.ledger, 3)
}

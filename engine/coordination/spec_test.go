package coordination_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// The tests of this file follow the numbered rules of the package comment.
// Rules 18, 20 and 21 say in which order the others apply and are shown by the
// scripts of testdata; rule 29 is held by TestProperties, as are all others.

func team(ids ...string) c.Config {
	return c.Config{Agents: ids, OnSplit: c.SplitRevote, MaxRevotes: 1, MaxStepsPerAgent: 12}
}

// answered is a session in which everybody has answered once, in the order given.
func answered(config c.Config) *player {
	p := start(config)
	for _, id := range config.Agents {
		p.step(p.answer(id))
	}
	p.drain()
	return p
}

func decision(t *testing.T, commands []c.Command) c.Decision {
	t.Helper()
	done := only[c.Done](commands)
	require.Len(t, done, 1, "expected a decision")
	return done[0].Decision
}

func launched(commands []c.Command) []string {
	ids := []string{}
	for _, l := range launches(commands) {
		ids = append(ids, l.Agent)
	}
	return ids
}

// 1. Numbers are positions in byte order, however the team is configured.
func TestRule01_LabelsComeFromByteOrder(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("b", "a_", "a", "a1"))
	numbers := map[string]int{}
	for _, l := range launches(p.drain()) {
		numbers[l.Agent] = l.Number
	}
	require.Equal(t, map[string]int{"a": 1, "a1": 2, "a_": 3, "b": 4}, numbers)

	p.batch(p.answer("b"), p.answer("a_"), p.answer("a"), p.answer("a1"))
	commands := p.batch(p.answer("b"))
	require.Equal(t, "agent4.2", only[c.Record](commands)[0].Entry.Label)
}

// 2. A failed agent is never launched again, its vote is void, its answers stay
// electable.
func TestRule02_FailedAgentIsOut(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	require.Equal(t, []string{"a", "b", "c"}, launched(p.batch(p.answer("a"), p.vote("b", "c"), p.vote("c", "c"))))
	require.Equal(t, []string{}, launched(p.batch(p.fail("c"))))
	require.Nil(t, p.state.View().Agents[2].Vote)
	require.Equal(t, c.AgentFailed, p.state.View().Agents[2].Status)
	d := decision(t, p.batch(p.vote("a", "c"), p.vote("b", "c")))
	require.Equal(t, c.Decision{Status: c.Consensus, Winner: "c", WinnerLabel: "agent3.1", WinnerStep: 1, Votes: []c.Count{{Target: "c", Votes: 2}}}, d)
}

// 3. The first event that names a running launch ends it; any other is noted
// and changes nothing.
func TestRule03_StaleEventsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]c.Event{
		"never launched": c.Answered{Launch: "l99", Step: 7},
		"no launch":      c.Voted{Step: 7, Target: "a"},
		"already ended":  c.Failed{Launch: "l1", Step: 7, Usage: llm.Usage{ModelCalls: 1}},
		"nil":            nil,
		"pointer":        &c.Finish{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(team("a", "b"))
			p.batch(p.answer("a"))
			before := p.state.View()
			require.Empty(t, p.batch(event))
			after := p.state.View()
			require.Equal(t, before.Events+1, after.Events)
			after.Events = before.Events
			require.Equal(t, before, after)
			last := p.state.Timeline()[after.Events]
			require.Equal(t, c.EntryIgnored, last.Kind)
		})
	}
}

// 4. A step is shown every latest accepted answer, in the order of the numbers.
func TestRule04_ShownAndOffered(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("z", "b", "a"))
	for _, l := range launches(p.drain()) {
		require.Empty(t, l.Shown)
		require.Equal(t, []c.Action{c.NewAnswer}, l.Offered)
	}
	second := launches(p.batch(p.answer("z"), p.fail("b"), p.answer("a")))
	require.Len(t, second, 2)
	third := launches(p.batch(p.answer("z"), p.vote("a", "a")))
	for _, l := range third {
		require.Equal(t, []c.Action{c.NewAnswer, c.Vote}, l.Offered)
		require.Equal(t, []c.Shown{
			{Agent: "a", Number: 1, Label: "agent1.1", Step: 1},
			{Agent: "z", Number: 3, Label: "agent3.2", Step: 2},
		}, l.Shown)
	}
	p.batch(p.fail("a"), p.answer("z"))
	require.Len(t, p.launches[p.latest["z"]].Shown, 2, "a failed agent's answer is still shown")
}

// 5. A launch goes on after the agent's last finished step, gaps included.
func TestRule05_After(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	next := launches(p.batch(c.Answered{Launch: "l1", Step: 4}))
	require.Equal(t, 4, next[0].After)
	next = launches(p.batch(c.Voted{Launch: "l2", Step: 6, Target: "nobody"}))
	require.Equal(t, 6, next[0].After, "also after a step without an accepted action")
}

// 6. An accepted answer withdraws the agent's own vote.
func TestRule06_AnswerWithdrawsOwnVote(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "b"), p.vote("b", "b"), p.answer("c"))
	p.batch(p.answer("a"))
	require.Nil(t, p.state.View().Agents[0].Vote)
	d := decision(t, p.batch(c.Finish{}))
	require.Equal(t, "b", d.Winner, "b's own vote still names agent2.1")
}

// 7. A vote keeps the revision that it named, else the one it saw.
func TestRule07_TargetLabel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		named string
		seen  []c.Seen
		want  string
	}{
		"named":             {named: "agent2.1", seen: []c.Seen{{Agent: "b", Step: 2}}, want: "agent2.1"},
		"not named, seen":   {seen: []c.Seen{{Agent: "b", Step: 1}}, want: "agent2.1"},
		"another's label":   {named: "agent1.1", seen: []c.Seen{{Agent: "b", Step: 2}}, want: "agent2.2"},
		"no such revision":  {named: "agent2.3", seen: []c.Seen{{Agent: "b", Step: 1}}, want: "agent2.1"},
		"nothing to go by":  {want: "agent2.2"},
		"only agent number": {named: "agent2", want: "agent2.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(team("a", "b"))
			p.batch(p.answer("a"), p.answer("b"))
			records := only[c.Record](p.batch(c.Voted{Launch: p.latest["a"], Step: 3, Target: "b", TargetLabel: test.named, Seen: test.seen}))
			require.Equal(t, test.want, records[0].Entry.TargetLabel)
		})
	}
}

// 8. What is not accepted ends the step; an earlier vote stays.
func TestRule08_NotAcceptedLeavesTheAgentAsItWas(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "a"), p.vote("b", "b")) // split: everybody votes again
	commands := p.batch(p.vote("a", "nobody"), p.vote("b", "a"))
	require.Len(t, only[c.Record](commands), 1)
	d := decision(t, commands)
	require.Equal(t, c.Consensus, d.Status, "a's vote from before the revote stands")
	require.Equal(t, 2, d.Votes[0].Votes)
}

// 9. Every ended step counts towards the limit; at the limit an agent abstains
// but stays in N.
func TestRule09_StepLimit(t *testing.T) {
	t.Parallel()
	config := team("a", "b", "c", "d")
	config.MaxStepsPerAgent = 2
	p := answered(config)
	commands := p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "nobody"), p.vote("d", "nobody"))
	d := decision(t, commands)
	require.Equal(t, c.Limit, d.Status, "two of four is no majority although only two voted")
	require.Equal(t, "a", d.Winner)
}

// 10. Usage is added up for every launched step, once.
func TestRule10_Usage(t *testing.T) {
	t.Parallel()
	usd := 0.25
	used := llm.Usage{InputTokens: 10, OutputTokens: 1, TotalUSD: &usd, ModelCalls: 1}
	p := start(team("a", "b", "c"))
	p.batch(c.Answered{Launch: "l1", Step: 1, Usage: used}, c.Failed{Launch: "l2", Step: 1, Usage: used})
	p.batch(c.Answered{Launch: "l1", Step: 1, Usage: used}) // stale
	p.batch(c.Finish{})
	p.batch(c.Failed{Launch: "l3", Usage: used}, c.Failed{Launch: "l3", Usage: used}) // cancelled, reports twice
	view := p.state.View()
	for _, a := range view.Agents {
		require.Equal(t, used, a.Cost, a.ID)
	}
	require.Equal(t, int64(30), view.Cost.InputTokens)
	require.InDelta(t, 0.75, *view.Cost.TotalUSD, 1e-9)
	require.Equal(t, c.AgentNoAction, view.Agents[2].Status, "nothing else of what a cancelled step reports counts")
}

// "A step stopped from outside changes nothing else."
func TestRule10_StoppedStepOnlyCosts(t *testing.T) {
	t.Parallel()
	config := team("a", "b")
	config.MaxStepsPerAgent = 2
	p := answered(config)
	for range 5 {
		commands := p.batch(
			c.Stopped{Launch: p.launchOf("a"), Usage: llm.Usage{InputTokens: 7, ModelCalls: 1}},
			c.Stopped{Launch: p.launchOf("b")},
		)
		require.Len(t, only[c.Launch](commands), 2, "both are launched again, below their limit")
	}
	a := p.state.View().Agents[0]
	require.Equal(t, c.AgentAnswered, a.Status)
	require.Equal(t, int64(35), a.Cost.InputTokens)
	require.Nil(t, a.Error)
}

// 11. Staleness: an answer newer than the one seen, absent counts as 0.
func TestRule11_Staleness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen  []c.Seen
		stale bool
	}{
		"saw all":                 {[]c.Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 1}, {Agent: "c", Step: 1}}, false},
		"any order, with others":  {[]c.Seen{{Agent: "x", Step: 9}, {Agent: "c", Step: 1}, {Agent: "b", Step: 1}, {Agent: "a", Step: 1}}, false},
		"not its own":             {[]c.Seen{{Agent: "b", Step: 1}, {Agent: "c", Step: 1}}, true},
		"not that of the failed":  {[]c.Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 1}}, true},
		"zero is not having seen": {[]c.Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 0}, {Agent: "c", Step: 1}}, true},
		"nothing":                 {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(team("a", "b", "c"))
			p.batch(p.fail("c"), c.Voted{Launch: p.latest["a"], Step: 2, Target: "b", Seen: test.seen})
			require.Equal(t, test.stale, p.state.View().Agents[0].Vote.Stale)
			require.Equal(t, test.stale, len(p.state.Tally()) == 0)
		})
	}
}

// 11. Other votes never make a vote stale.
func TestRule11_VotesDoNotMakeStale(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"))
	p.batch(p.vote("b", "b"))
	require.False(t, p.state.View().Agents[0].Vote.Stale)
}

// 12. Nobody has seen more than was accepted.
func TestRule12_SeenIsBoundedByWhatWasAccepted(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	p.batch(p.answer("a"), p.fail("b"))
	records := only[c.Record](p.batch(c.Answered{
		Launch: p.latest["a"], Step: 2,
		Seen: []c.Seen{{Agent: "x", Step: 1}, {Agent: "b", Step: 5}, {Agent: "a", Step: 7}, {Agent: "a", Step: 1}},
	}))
	require.Equal(t, []c.Seen{{Agent: "a", Step: 1}}, records[0].Entry.Seen)
	vote := c.Voted{Launch: p.latest["a"], Step: 3, Target: "a", Seen: []c.Seen{{Agent: "a", Step: 0}}}
	require.Empty(t, only[c.Record](p.batch(vote))[0].Entry.Seen, "step 0 is no answer")
}

// 13. A wave is who has something new to look at, in configured order.
func TestRule13_Wave(t *testing.T) {
	t.Parallel()
	p := answered(team("d", "c", "b", "a"))
	missed := c.Voted{Launch: p.latest["c"], Step: 2, Target: "a", Seen: nil}
	commands := p.batch(p.vote("d", "a"), missed, p.vote("b", "nobody"), p.vote("a", "a"))
	require.Equal(t, []string{"c", "b"}, launched(commands), "a stale vote and no vote; fresh votes are left alone")
}

// 14. The next wave waits until the whole of this one has ended.
func TestRule14_NextWaveWaits(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b", "c"))
	require.Empty(t, launches(p.batch(p.answer("a"))))
	require.Empty(t, launches(p.batch(p.answer("b"))))
	third := launches(p.batch(p.answer("c")))
	require.Len(t, third, 3)
	require.Equal(t, 2, third[0].Round)
	require.Equal(t, 2, p.state.View().Round)
}

// 15. With on_agent_failure fail the session fails at once, and before all else.
func TestRule15_FailurePolicy(t *testing.T) {
	t.Parallel()
	config := team("a", "b", "c")
	config.OnAgentFailure = c.FailureFail
	p := answered(config)
	commands := p.batch(c.Finish{}, p.vote("a", "a"), p.fail("b"))
	require.Equal(t, []c.Cancel{{ID: p.latest["c"]}}, only[c.Cancel](commands))
	d := decision(t, commands)
	require.Equal(t, c.FailedAll, d.Status)
	require.Empty(t, d.Winner)
}

// 16. Consensus needs more than half of the active agents, and everybody done.
func TestRule16_Consensus(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c", "d"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "a"))
	require.False(t, p.state.Done(), "three of four, but the fourth still works")
	require.Equal(t, c.Consensus, decision(t, p.batch(p.vote("d", "b"))).Status)

	p = answered(team("a", "b", "c", "d"))
	commands := p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "b"), p.vote("d", "c"))
	require.Len(t, launches(commands), 4, "half is not more than half")
}

// 16. A consensus reached in the same batch as TimeUp stands.
func TestRule16_ConsensusBeforeForcedDecision(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	require.Equal(t, c.Consensus, decision(t, p.batch(c.TimeUp{}, p.vote("a", "b"), p.vote("b", "b"))).Status)
}

// 17. Finish and TimeUp decide at once; the first of them names the decision.
func TestRule17_ForcedDecision(t *testing.T) {
	t.Parallel()
	for want, events := range map[c.Status][]c.Event{
		c.Finished: {c.Finish{}, c.TimeUp{}},
		c.Timeout:  {c.TimeUp{}, c.Finish{}},
	} {
		p := answered(team("a", "b"))
		commands := p.batch(events...)
		require.Equal(t, want, decision(t, commands).Status)
		require.Empty(t, launches(commands))
		require.Len(t, only[c.Cancel](commands), 2)
	}
}

// 17. A split that would have been plurality is marked as forced when it was.
func TestRule17_ForcedBeforePlurality(t *testing.T) {
	t.Parallel()
	config := team("a", "b")
	config.OnSplit = c.SplitPlurality
	p := answered(config)
	require.Equal(t, c.Timeout, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"), c.TimeUp{})).Status)
}

// 19. Without active agents the answers decide.
func TestRule19_NobodyActive(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	d := decision(t, p.batch(p.fail("a"), p.fail("b")))
	require.Equal(t, c.Decision{Status: c.Plurality, Winner: "b", WinnerLabel: "agent2.1", WinnerStep: 1, Votes: []c.Count{}}, d)
}

// 22. A revote happens at most max_revotes times in a session.
func TestRule22_Revotes(t *testing.T) {
	t.Parallel()
	for revotes := range 3 {
		config := team("a", "b")
		config.MaxRevotes = revotes
		p := answered(config)
		for range revotes {
			again := launches(p.batch(p.vote("a", "a"), p.vote("b", "b")))
			require.Len(t, again, 2)
			require.True(t, again[0].Revote)
			require.True(t, again[1].Revote)
		}
		require.Equal(t, c.Plurality, decision(t, p.batch(p.vote("a", "a"), p.vote("b", "b"))).Status)
	}
}

// 22. Only agents below the limit vote again.
func TestRule22_RevoteOfThoseWithStepsLeft(t *testing.T) {
	t.Parallel()
	config := team("a", "b")
	config.MaxStepsPerAgent = 3
	p := answered(config)
	missed := c.Voted{Launch: p.latest["a"], Step: 2, Target: "a"}
	p.batch(missed, p.vote("b", "b"))
	commands := p.batch(p.vote("a", "a"))
	require.Equal(t, []string{"b"}, launched(commands), "a has had its three steps")
}

// 23. Plurality: fresh votes, then those of others, then configured order.
func TestRule23_Plurality(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ votes, want string }{
		"most votes":             {"a:a b:b c:c d:e e:e", "e"},
		"votes of others":        {"a:a b:a c:d d:e e:d", "d"},
		"configured first":       {"a:b b:a c:d d:c e:e", "a"},
		"own votes all the same": {"a:a b:b c:c d:d e:e", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := team("a", "b", "c", "d", "e")
			config.OnSplit = c.SplitPlurality
			p := answered(config)
			for pair := range strings.FieldsSeq(test.votes) {
				voter, target, _ := strings.Cut(pair, ":")
				p.step(p.vote(voter, target))
			}
			d := decision(t, p.drain())
			require.Equal(t, c.Plurality, d.Status)
			require.Equal(t, test.want, d.Winner)
		})
	}
}

// 24. Forced: fresh votes, then votes for this revision, then the newest.
func TestRule24_ForcedRanking(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c")) // two stale votes for agent1.1
	p.batch(p.answer("a"))                                     // and now they are for an old revision
	d := decision(t, p.batch(c.Finish{}))
	require.Equal(t, "a", d.Winner, "the newest")
	require.Equal(t, "agent1.2", d.WinnerLabel)

	p = answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c"))
	require.Equal(t, "a", decision(t, p.batch(c.Finish{})).Winner, "named exactly, though not the newest")

	p = answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c"))
	require.Equal(t, "b", decision(t, p.batch(p.vote("c", "b"), c.Finish{})).Winner, "one fresh vote before two stale ones")
}

// 25. Where nobody has an answer the session has failed, whoever asked.
func TestRule25_NobodyAnswered(t *testing.T) {
	t.Parallel()
	want := c.Decision{Status: c.FailedAll, Cause: c.CauseNoAnswer, Votes: []c.Count{}}
	for _, event := range []c.Event{c.TimeUp{}, c.Finish{}} {
		p := start(team("a", "b"))
		require.Equal(t, want, decision(t, p.batch(event)))
	}
	p := start(team("a"))
	require.Equal(t, want, decision(t, p.batch(p.fail("a"))))
	require.Equal(t, "overloaded", p.state.View().Agents[0].Error.Type)
	require.Equal(t, want, decision(t, newPlayer(team()).drain()))
}

// 26. Nothing follows a decision.
func TestRule26_NothingFollows(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "a"))
	d := decision(t, p.batch(c.Finish{}))
	require.Empty(t, p.batch(p.vote("b", "b"), p.answer("a"), c.TimeUp{}, c.Finish{}))
	require.True(t, p.state.Done())
	require.Equal(t, d, p.state.Decision())
}

// 27. Events that happened together are judged together: agent c's answer and
// the votes that it makes stale lead to one wave.
func TestRule27_Batch(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	commands := p.batch(p.vote("a", "b"), p.answer("c"), p.vote("b", "b"))
	require.Len(t, launches(commands), 3)
	require.Len(t, only[c.Record](commands), 3)
}

// 28. Records come in ledger order before all else, and nothing comes twice.
func TestRule28_DrainOrder(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b", "c"))
	require.Empty(t, p.drain())
	commands := p.batch(p.answer("b"), p.answer("a"), c.Finish{})
	require.Equal(t, 1, commands[0].(c.Record).Entry.Seq)
	require.Equal(t, 2, commands[1].(c.Record).Entry.Seq)
	require.Equal(t, c.Cancel{ID: "l3"}, commands[2])
	require.IsType(t, c.Done{}, commands[3])
	require.Empty(t, p.drain())
}

// 30. Agents that never do anything useful come to an end within the bound.
func TestRule30_SessionsEnd(t *testing.T) {
	t.Parallel()
	config := team("a", "b", "c")
	config.MaxStepsPerAgent = 0 // the default
	p := start(config)
	for !p.state.Done() {
		p.batch(p.vote("a", "b"), p.vote("b", "c"), p.vote("c", "a"))
	}
	require.Len(t, p.launches, 3*12)
	require.Equal(t, c.FailedAll, p.state.Decision().Status)
}

package coordination

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// 6. Seed 000: "answered → voted", and back by "re-launch → answer or vote again": an answer
// withdraws the agent's own vote.
func TestRule06_AnswerWithdrawsOwnVote(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "b"), p.vote("b", "b"), p.answer("c"))
	p.batch(p.answer("a"))
	require.Nil(t, p.state.View().Agents[0].Vote)
	d := decision(t, p.batch(Finish{}))
	require.Equal(t, "b", d.Winner, "b's own vote still names agent2.1")
}

// 6. Seed 001: "When new_answer is accepted: all terminal decisions are reset (has_voted, vote
// payloads, stop metadata)". The agent's own stop is withdrawn, and those of others become stale.
func TestRule06_AnswerWithdrawsOwnStop(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "a", "b"))
	p.batch(p.stop("a", Complete), p.answer("b"))
	p.batch(p.answer("a"))
	require.Nil(t, p.state.View().Agents[0].Stop)
	require.Equal(t, "answered", p.state.View().Agents[0].Status)
}

// 6. Seed 000: "No overwrites". A step number is used once.
func TestRule06_StepNumberIsUsedOnce(t *testing.T) {
	t.Parallel()
	p := answered(team("a"))
	require.Empty(t, only[Record](p.batch(Answered{End: End{Launch: p.latest["a"], Step: 1}})))
	require.Equal(t, "agent1.1", p.state.View().Agents[0].LatestLabel)
}

// 7. Seed 001: "votes with voter-context label resolution (prevents race-condition mislabeling)". A
// vote is for the revision that it names or, if it names none, for the one that its voter saw.
func TestRule07_TargetLabel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		named string
		seen  []Seen
		want  string
	}{
		"named":             {named: "agent2.1", seen: []Seen{{Agent: "a", Step: 2}, {Agent: "b", Step: 2}}, want: "agent2.1"},
		"not named, seen":   {seen: []Seen{{Agent: "b", Step: 1}}, want: "agent2.1"},
		"another's label":   {named: "agent1.1", seen: []Seen{{Agent: "b", Step: 2}}, want: "agent2.2"},
		"no such revision":  {named: "agent2.3", seen: []Seen{{Agent: "b", Step: 1}}, want: "agent2.1"},
		"nothing to go by":  {want: "agent2.2"},
		"only agent number": {named: "agent2", want: "agent2.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(team("a", "b"))
			p.batch(p.answer("a"), p.answer("b"))
			records := only[Record](p.batch(Voted{End: End{Launch: p.latest["a"], Step: 3}, Choice: Choice{Target: "b", TargetLabel: test.named}, Seen: test.seen}))
			require.Equal(t, test.want, records[0].Entry.TargetLabel)
			told := texts(p.state, 0)
			require.Equal(t, name == "named", slices.Contains(told, "vote: a voted for b (agent2.1), which counts for agent2.2"), told)
		})
	}
}

// 7. DESIGN: "Only agents with an answer can be voted for." CONTRACT: "voting for
// one's own answer is allowed".
func TestRule07_WhoCanBeVotedFor(t *testing.T) {
	t.Parallel()
	for target, accepted := range map[string]bool{"a": true, "b": true, "c": false, "x": false, "": false} {
		p := start(team("a", "b", "c"))
		p.batch(p.answer("a"), p.answer("b"), p.fail("c"))
		require.Len(t, only[Record](p.batch(p.vote("a", target))), map[bool]int{true: 1}[accepted], "a vote for %q", target)
	}
}

// 7. Seed 001: "vote = terminal submission in voting mode; stop = terminal submission in
// decomposition mode". Each is only accepted in its own mode.
func TestRule07_StopIsForDecomposition(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	require.Empty(t, only[Record](p.batch(p.stop("a", Complete))))
	require.Nil(t, p.state.View().Agents[0].Stop)

	p = answered(teamWith(decomposed, "a", "b"))
	require.Empty(t, only[Record](p.batch(p.vote("a", "b"))))
	require.Len(t, only[Record](p.batch(p.stop("b", Blocked))), 1)
	require.Equal(t, Blocked, p.state.View().Agents[1].Stop.Status)
}

// 8. Seed 001: "missing workflow decision after tool/text output is rejected and retried". A
// refused action ends the step, and an earlier vote still counts.
func TestRule08_RefusedActionKeepsTheStatus(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "a"), p.vote("b", "b")) // split: all agents vote again
	commands := p.batch(p.vote("a", "nobody"), p.vote("b", "a"))
	require.Len(t, only[Record](commands), 1)
	d := decision(t, commands)
	require.Equal(t, Consensus, d.Status, "a's vote from before the revote stands")
	require.Equal(t, 2, d.Votes[0].Votes)
}

// 8. DESIGN: "Each launch carries a spend allowance which the step enforces before each model
// call". A step that has spent its allowance ends without an action.
func TestRule08_ExhaustedStepIsLaunchedAgain(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	for range 11 {
		require.Equal(t, []string{"a"}, launched(p.batch(p.exhaust("a"))))
	}
	require.Equal(t, FailedAll, decision(t, p.batch(p.exhaust("a"))).Status, "and counts towards the limit of 12")
}

// 9. DESIGN: "An agent at its step limit is done: its fresh vote counts, else it
// abstains but stays in N."
func TestRule09_StepLimit(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b", "c", "d"))
	commands := p.batch(p.vote("a", "a"), p.vote("b", "a"), p.vote("c", "nobody"), p.vote("d", "nobody"))
	d := decision(t, commands)
	require.Equal(t, Limit, d.Status, "two of four is no majority although only two voted")
	require.Equal(t, "a", d.Winner)
}

// 9. The fresh votes of agents at the limit are sufficient for a decision.
func TestRule09_FreshVotesAtTheLimitCount(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b", "c"))
	d := decision(t, p.batch(p.vote("a", "a"), p.vote("b", "a"), p.exhaust("c")))
	require.Equal(t, Consensus, d.Status, "two of three")
}

// 10. DESIGN: "usage of failed attempts counts too". The usage of every launched step is counted
// once.
func TestRule10_Usage(t *testing.T) {
	t.Parallel()
	usd := 0.25
	used := llm.Usage{InputTokens: 10, OutputTokens: 1, TotalUSD: &usd, ModelCalls: 1}
	p := start(team("a", "b", "c"))
	p.batch(Answered{End: End{Launch: "l1", Step: 1, Usage: used}}, Failed{End: End{Launch: "l2", Step: 1, Usage: used}})
	p.batch(Answered{End: End{Launch: "l1", Step: 1, Usage: used}}) // stale
	p.batch(Finish{})
	p.batch(Suspended{End: End{Launch: "l3", Usage: used}}, Failed{End: End{Launch: "l3", Usage: used}}) // cancelled, reports twice
	view := p.state.View()
	for _, a := range view.Agents {
		require.Equal(t, used, a.Cost, a.ID)
	}
	require.Equal(t, int64(30), view.Cost.InputTokens)
	require.InDelta(t, 0.75, *view.Cost.TotalUSD, 1e-9)
	require.Equal(t, "no_action", view.Agents[2].Status, "only the usage of a cancelled step counts")
}

// 10. DESIGN: "a step ended so is suspended: no failure, no counted step". Only its usage is
// counted.
func TestRule10_SuspendedStepCountsOnlyUsage(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b"))
	for range 5 {
		used := llm.Usage{InputTokens: 7, ModelCalls: 1}
		commands := p.batch(Suspended{End: End{Launch: p.latest["a"], Usage: used}}, Suspended{End: End{Launch: p.latest["b"]}})
		require.Equal(t, []string{"a", "b"}, launched(commands), "both continue, below their limit")
	}
	a := p.state.View().Agents[0]
	require.Equal(t, "answered", a.Status)
	require.Equal(t, int64(35), a.Cost.InputTokens)
	require.Nil(t, a.Error)
}

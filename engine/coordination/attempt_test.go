package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// 47. Seed 001: "optional post-evaluation/restart decision": answers, votes and stops of
// the earlier attempt count no longer, steps and labels count on, and every step is told
// what it came to and whose commit says why that will not do.
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
	require.Equal(t, c.AgentNoAction, view.Agents[0].Status)

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
// not judged, and a team that is never content comes to an end.
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

// 47. Seed 001, snapshot preservation: what was submitted is never overwritten by what
// is incomplete. If the new attempt comes to nothing, what the last one decided stands.
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

// 47. Nor is it when the second attempt ends split, or with every part blocked: it is
// not presented a second time out of nothing.
func TestRule47_NorByASplitNorByBlockedParts(t *testing.T) {
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

// 47. But an answer of the new attempt is one: it has not come to nothing.
func TestRule47_TheNewAttemptsAnswerCounts(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(restartable, "a", "b"))
	p.batch(p.evaluate("a", true))
	require.Equal(t, "agent2.2", decision(t, p.batch(p.answer("b"), c.Finish{})).WinnerLabel)
}

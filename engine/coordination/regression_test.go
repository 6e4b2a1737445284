package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// These are the shortest sessions in which the properties have failed.

// "What is left of it is shared equally by the steps launched together", including a
// restarted and a new step.
func TestResumedAndNewStepsShareTheBudget(t *testing.T) {
	t.Parallel()
	p := start(Config{
		Agents: []string{"a", "b", "d"}, Pacing: "continuous", Updates: Restart, Budget: Allowance{Tokens: 900, USD: 9},
	})
	usd := 0.0
	used := llm.Usage{InputTokens: 100, TotalUSD: &usd, ModelCalls: 1}
	p.batch(p.answer("a"), p.answer("b")) // each has the answer of the other to look at
	answer, vote := p.answer("a").(Answered), p.vote("b", "b").(Voted)
	answer.Usage, vote.Usage = used, used
	restart := p.restart("d")
	got := launches(p.batch(answer, vote, restart))
	require.Len(t, got, 2, "d resumes, b has news; a has none")
	for _, l := range got {
		require.Equal(t, got[0].Allowance, l.Allowance)
	}
	require.Equal(t, int64(350), got[0].Allowance.Tokens, "900 less 200")
	require.InDelta(t, 4.5, got[0].Allowance.USD, 1e-9)
}

// "A consensus reached in the same batch as Finish or TimeUp stands". It is not presented.
func TestConsensusStandsUnpresented(t *testing.T) {
	t.Parallel()
	for _, forced := range []Event{Finish{}, TimeUp{}} {
		p := start(Config{Agents: []string{"a"}, Strategy: winnerPresent, MaxRestarts: 1})
		p.batch(p.answer("a"))
		commands := p.batch(p.vote("a", "a"), forced)
		require.Empty(t, launches(commands))
		require.Equal(t, Consensus, p.state.Decision().Status)
		require.Nil(t, p.state.Decision().Final)
	}
}

// Fairness counts "the slowest peer that works or will". In a revote this includes agents that are
// launched later.
func TestRevoteIsFairToLaterLaunches(t *testing.T) {
	t.Parallel()
	never := 0
	p := start(Config{Agents: []string{"a", "b"}, MaxRevotes: 1, LeadCap: &never})
	p.batch(p.answer("a"), p.answer("b"))
	got := launches(p.batch(p.vote("a", "a"), p.vote("b", "b")))
	require.Len(t, got, 2)
	for _, l := range got {
		require.True(t, l.Revote)
		require.Equal(t, []Action{Vote}, l.Offered)
	}
}

// "Rounds are counted by each agent; the session's is the highest". An agent without a place under
// the global limit has not started a round.
func TestRoundsOfAgentsWithoutAnAction(t *testing.T) {
	t.Parallel()
	p := start(Config{Agents: []string{"a", "b"}, AnswersGlobal: 1})
	require.Len(t, p.launches, 1)
	timeline := p.state.Timeline()
	require.Equal(t, "round 1: 1 launched", timeline[len(timeline)-1].Text)

	q := start(Config{Agents: []string{"a", "b"}, AnswersGlobal: 1, Pacing: "continuous"})
	require.Len(t, q.launches, 1)
	require.Equal(t, 1, q.state.View().Round)
}

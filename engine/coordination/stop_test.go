package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// 14. Seed 001, the binary decision: "terminal branch: submit vote (or stop in
// decomposition mode)". A stop needs no answer: an agent may be blocked at once.
func TestRule14_StopTakesThePlaceOfTheVote(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(decomposed, "a", "b"))
	require.Equal(t, map[string][]c.Action{"a": answerOrStop, "b": answerOrStop}, offers(p.drain()))
	commands := p.batch(p.stop("a", c.Blocked), p.answer("b"))
	require.Equal(t, c.Blocked, only[c.Record](commands)[0].Entry.Status)
	require.Equal(t, map[string][]c.Action{"a": answerOrStop, "b": answerOrStop}, offers(commands))
}

// 14. Seed 001: "per-agent limit is treated as a consecutive streak limit; streak
// resets when agent observes unseen external updates; hit limits auto-stop the agent
// instead of vote-only mode".
func TestRule14_StreakAndAutoStop(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *c.Config) { o.Mode, o.AnswersPerAgent = c.Decomposition, 2 }, "a", "b"))
	p.batch(p.answer("a"), p.stop("b", c.Complete)) // a's first since it saw agent2.1
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.exhaust("a"), p.exhaust("b"))), "b's stop is stale")
	commands := p.batch(p.answer("a"), p.stop("b", c.Complete))
	require.Equal(t, []string{"b"}, launched(commands), "a's second, and nothing new of b: it is stopped")
	stop := p.state.View().Agents[0].Stop
	require.Equal(t, c.StopView{Status: c.Complete, Summary: "stopped at its limit of answers"}, *stop)

	commands = p.batch(p.answer("b")) // wakes it up
	require.Equal(t, map[string][]c.Action{"a": answerOrStop, "b": answerOrStop}, offers(commands))
	require.True(t, p.state.View().Agents[0].Stop.Stale)
	commands = p.batch(p.answer("a"), p.stop("b", c.Complete))
	require.Equal(t, []string{"a", "b"}, launched(commands), "the first of a new row")
}

// 14. Seed 001: "streak resets when agent observes unseen external updates", also
// those that reach it while it works.
func TestRule14_NewsOnTheWayEndsAStreak(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} {
		p := answered(teamWith(func(o *c.Config) {
			o.Mode, o.AnswersPerAgent, o.Updates = c.Decomposition, 2, c.Inject
		}, "a", "b"))
		p.batch(p.answer("a"), p.stop("b", c.Complete))
		p.batch(p.answer("b"))
		e := p.answer("a").(c.Answered)
		if heard {
			e.Seen, _ = p.told(e.Launch)
		}
		p.batch(e)
		// In either case b's answer was something new, at once or with the next step.
		require.Equal(t, map[bool]int{true: 1, false: 0}[heard], p.state.Agents[0].Streak, heard)
		require.Nil(t, p.state.View().Agents[0].Stop)
	}
}

// 14. Seed 001, limits: "max_new_answers_global"; at it, everybody in decomposition is
// stopped, and the session goes on to its presenter.
func TestRule14_GlobalLimitStopsEverybody(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *c.Config) { o.Mode, o.AnswersGlobal = c.Decomposition, 2 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("a"), p.answer("b")))
	require.Equal(t, c.Present, l.Purpose)
	for _, a := range p.state.View().Agents {
		require.Equal(t, c.StopView{Status: c.Complete, Summary: "stopped at its limit of answers"}, *a.Stop)
	}
}

// 14. In rounds nobody is stopped while others of the wave still work: what they bring
// may be something new.
func TestRule14_RoundsWaitBeforeStopping(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *c.Config) { o.Mode, o.AnswersPerAgent = c.Decomposition, 1 }, "a", "b")
	p := start(config)
	p.batch(p.answer("a"))
	require.Nil(t, p.state.View().Agents[0].Stop, "b still works")
	require.Equal(t, map[string][]c.Action{"a": answerOrStop, "b": answerOrStop}, offers(p.batch(p.answer("b"))))

	config.Pacing = c.Continuous
	p = start(config)
	p.batch(p.answer("a"))
	require.NotNil(t, p.state.View().Agents[0].Stop, "nobody waits for a wave; b's answer wakes it up")
}

// 14. Nor while one of them goes on with its step.
func TestRule14_StoppingWaitsForThoseThatGoOn(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *c.Config) { o.Mode, o.AnswersPerAgent = c.Decomposition, 1 }, "a", "b"))
	p.batch(c.Pause{})
	p.batch(p.answer("a"), p.suspend("b"))
	require.Equal(t, []string{"b"}, launched(p.batch(c.Resume{})))
	require.Nil(t, p.state.View().Agents[0].Stop)
}

// 14. A step that may answer keeps its place under the global limit; the others can
// always stop.
func TestRule14_StopIsAlwaysOffered(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *c.Config) { o.Mode, o.AnswersGlobal = c.Decomposition, 1 }, "a", "b"))
	require.Equal(t, map[string][]c.Action{"a": answerOrStop, "b": stopOnly}, offers(p.drain()))
}

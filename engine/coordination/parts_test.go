package coordination_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// 45. Whoever was stopped by the session was not asked: the presenter is not told of it
// as if it were that agent's word.
func TestRule45_StopsByTheSessionAreNotTold(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *c.Config) { o.Mode, o.AnswersGlobal = c.Decomposition, 3 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("a"), p.stop("b", c.Complete)))
	require.Equal(t, c.Present, l.Purpose, "a gave the last answer, which made b's stop stale: both are stopped")
	require.Empty(t, l.Brief.Stops)

	p = answered(teamWith(func(o *c.Config) { o.Mode, o.AnswersPerAgent = c.Decomposition, 1 }, "a", "b"))
	p.batch(p.stop("a", c.Complete), p.answer("b"))
	l = theLaunch(t, p.batch(p.stop("a", c.Complete)))
	require.Equal(t, c.Present, l.Purpose, "b has answered once and has seen all there is")
	require.Equal(t, []c.StopNote{{Number: 1, Status: c.Complete, Summary: "a's part"}}, l.Brief.Stops)
}

// joining is a team of three that has stopped on its parts: c joins them.
func joining(t *testing.T, set func(*c.Config)) *player {
	t.Helper()
	p := answered(teamWith(func(o *c.Config) { o.Mode = c.Decomposition; set(o) }, "a", "b", "c"))
	l := theLaunch(t, p.batch(p.stop("a", c.Complete), p.stop("b", c.Blocked), p.stop("c", c.Complete)))
	require.Equal(t, "c", l.Agent)
	return p
}

// 44. Seed 001, finalization: "decomposition mode -> configured presenter (or fallback)":
// one part is no answer to the query, so the next joins them when the presenter fails,
// whatever happens to agents that fail elsewhere.
func TestRule44_AnotherJoinsTheParts(t *testing.T) {
	t.Parallel()
	for _, policy := range []c.OnAgentFailure{c.FailureContinue, c.FailureFail} {
		p := joining(t, func(o *c.Config) { o.OnAgentFailure = policy })
		seq := p.state.Events
		l := theLaunch(t, p.batch(p.fail("c")))
		require.Equal(t, "b", l.Agent)
		require.Equal(t, c.Present, l.Purpose)
		require.Equal(t, answerOnly, l.Offered)
		require.Empty(t, l.ResumeFrom, "it is not c's step")
		require.Equal(t, []c.StopNote{
			{Number: 1, Status: c.Complete, Summary: "a's part"}, {Number: 2, Status: c.Blocked, Summary: "b's part"},
		}, l.Brief.Stops, "c's stop is void")
		require.Equal(t, []string{
			"failed: c failed: overloaded", "refused: c came to no final word; b presents instead",
		}, texts(p.state, seq))
		d := decision(t, p.batch(p.answer("b")))
		require.Equal(t, c.Presented, d.Status)
		require.Equal(t, "b", d.Winner)
		require.Equal(t, "agent2.final", d.WinnerLabel)
		require.Equal(t, "agent2.final", d.Final.Label)
	}
}

// 44. "presenter_agent; else, in decomposition, the agent configured last": in this order.
func TestRule44_WhoStandsIn(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *c.Config) { o.Mode, o.Presenter = c.Decomposition, "b" }, "a", "b", "c"))
	p.batch(p.stop("a", c.Complete), p.stop("b", c.Complete), p.stop("c", c.Complete))
	require.Equal(t, "b", p.latestLaunched(c.Present))
	require.Equal(t, "c", theLaunch(t, p.batch(p.fail("b"))).Agent)
	require.Equal(t, "a", theLaunch(t, p.batch(p.fail("c"))).Agent)
}

// 45. Only when nobody is left the part that is there stands, and the timeline says
// that it is no more than that.
func TestRule45_NobodyIsLeftToJoinTheParts(t *testing.T) {
	t.Parallel()
	p := joining(t, func(*c.Config) {})
	p.batch(p.fail("c"))
	p.batch(p.fail("b"))
	seq := p.state.Events
	require.Equal(t, c.Decision{
		Status: c.Presented, Winner: "c", WinnerLabel: "agent3.1", WinnerStep: 1, Votes: []c.Count{},
	}, decision(t, p.batch(p.fail("a"))))
	require.Equal(t, []string{
		"failed: a failed: overloaded",
		"refused: a came to no final word; the parts were not joined, what there is stands",
		"decided: presented: c (agent3.1)",
	}, texts(p.state, seq))
}

// 45. A step that ended without failing has had its say, and what there is stands; with
// the last of the money spent nobody could be launched.
func TestRule45_NobodyStandsIn(t *testing.T) {
	t.Parallel()
	last := "refused: c came to no final word; the parts were not joined, what there is stands"
	p := joining(t, func(*c.Config) {})
	require.Equal(t, "agent3.1", decision(t, p.batch(p.exhaust("c"))).WinnerLabel)
	require.Contains(t, texts(p.state, 0), last)

	p = joining(t, func(o *c.Config) { o.Budget.Tokens = 10 })
	failed := p.fail("c").(c.Failed)
	failed.Usage = llm.Usage{InputTokens: 10, ModelCalls: 1}
	require.Equal(t, "agent3.1", decision(t, p.batch(failed)).WinnerLabel)
	require.Contains(t, texts(p.state, 0), last)
}

// 44. A session that is parked for its presenter waits for it: nobody stands in.
func TestRule44_ParkedForThePresenterOfTheParts(t *testing.T) {
	t.Parallel()
	p := joining(t, parking)
	require.Empty(t, p.batch(p.fail("c")))
	l := theLaunch(t, p.batch(c.Retry{}))
	require.Equal(t, "c", l.Agent)
	require.NotEmpty(t, l.ResumeFrom)
}

// 46. "The same agent then judges the final answer": whoever stood in; and when nobody
// judges, what was joined stands.
func TestRule46_WhoStandsInJudges(t *testing.T) {
	t.Parallel()
	p := joining(t, restartable)
	p.batch(p.fail("c"))
	l := theLaunch(t, p.batch(p.answer("b")))
	require.Equal(t, c.Evaluate, l.Purpose)
	require.Equal(t, "b", l.Agent)
	require.Equal(t, "agent2.final", decision(t, p.batch(p.fail("b"))).WinnerLabel, "a judgement is not asked for twice")
}

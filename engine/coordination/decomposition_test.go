package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// 14. Seed 001, the binary decision: "terminal branch: submit vote (or stop in decomposition
// mode)". An agent may stop without an answer, for example because it is blocked.
func TestRule14_StopReplacesTheVote(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(decomposed, "a", "b"))
	require.Equal(t, map[string][]Action{"a": answerOrStop, "b": answerOrStop}, offeredTo(p.drain()))
	commands := p.batch(p.stop("a", Blocked), p.answer("b"))
	require.Equal(t, Blocked, only[Record](commands)[0].Entry.Status)
	require.Equal(t, map[string][]Action{"a": answerOrStop, "b": answerOrStop}, offeredTo(commands))
}

// 14. Seed 001: "per-agent limit is treated as a consecutive streak limit; streak
// resets when agent observes unseen external updates; hit limits auto-stop the agent
// instead of vote-only mode".
func TestRule14_StreakAndAutoStop(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent = Decomposition, 2 }, "a", "b"))
	p.batch(p.answer("a"), p.stop("b", Complete)) // a's first since it saw agent2.1
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.exhaust("a"), p.exhaust("b"))), "b's stop is stale")
	commands := p.batch(p.answer("a"), p.stop("b", Complete))
	require.Equal(t, []string{"b"}, launched(commands), "a's second, and nothing new of b: it is stopped")
	stop := p.state.View().Agents[0].Stop
	require.Equal(t, StopView{Status: Complete, Summary: "stopped at its limit of answers"}, *stop)

	commands = p.batch(p.answer("b")) // wakes it up
	require.Equal(t, map[string][]Action{"a": answerOrStop, "b": answerOrStop}, offeredTo(commands))
	require.True(t, p.state.View().Agents[0].Stop.Stale)
	commands = p.batch(p.answer("a"), p.stop("b", Complete))
	require.Equal(t, []string{"a", "b"}, launched(commands), "the first of a new row")
}

// 14. Seed 001: "streak resets when agent observes unseen external updates", including
// updates that reach a running step.
func TestRule14_NewsDuringAStepEndsAStreak(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} {
		p := answered(teamWith(func(o *Config) {
			o.Mode, o.AnswersPerAgent, o.Updates = Decomposition, 2, Inject
		}, "a", "b"))
		p.batch(p.answer("a"), p.stop("b", Complete))
		p.batch(p.answer("b"))
		e := p.answer("a").(Answered)
		if heard {
			e.Seen, _ = p.witnessed(e.Launch)
		}
		p.batch(e)
		// The answer of b was news, either at once or in the next step.
		require.Equal(t, map[bool]int{true: 1, false: 0}[heard], p.state.Agents[0].Streak, heard)
		require.Nil(t, p.state.View().Agents[0].Stop)
	}
}

// 14. Seed 001, limits: "max_new_answers_global": at the limit every agent in
// decomposition is stopped, and the session continues with its presenter.
func TestRule14_GlobalLimitStopsEveryAgent(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 2 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("a"), p.answer("b")))
	require.Equal(t, Present, l.Purpose)
	for _, a := range p.state.View().Agents {
		require.Equal(t, StopView{Status: Complete, Summary: "stopped at its limit of answers"}, *a.Stop)
	}
}

// 14. In rounds no agent is stopped while a step of the wave runs, since the step may
// bring it news.
func TestRule14_RoundsWaitBeforeStopping(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent = Decomposition, 1 }, "a", "b")
	p := start(config)
	p.batch(p.answer("a"))
	require.Nil(t, p.state.View().Agents[0].Stop, "b still works")
	require.Equal(t, map[string][]Action{"a": answerOrStop, "b": answerOrStop}, offeredTo(p.batch(p.answer("b"))))

	config.Pacing = "continuous"
	p = start(config)
	p.batch(p.answer("a"))
	require.NotNil(t, p.state.View().Agents[0].Stop, "nobody waits for a wave; b's answer wakes it up")
}

// 14. No agent is stopped while a resumed step is running.
func TestRule14_StoppingWaitsForResumedSteps(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent = Decomposition, 1 }, "a", "b"))
	p.batch(Pause{})
	p.batch(p.answer("a"), p.suspend("b"))
	require.Equal(t, []string{"b"}, launched(p.batch(Resume{})))
	require.Nil(t, p.state.View().Agents[0].Stop)
}

// 14. A step that may answer reserves its place under the global limit. Other steps can always
// stop.
func TestRule14_StopIsAlwaysOffered(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 1 }, "a", "b"))
	require.Equal(t, map[string][]Action{"a": answerOrStop, "b": stopOnly}, offeredTo(p.drain()))
}

// 45. The brief omits stops by the session, because they are not the agents' own.
func TestRule45_StopsByTheSessionAreNotInTheBrief(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 3 }, "a", "b"))
	l := theLaunch(t, p.batch(p.answer("a"), p.stop("b", Complete)))
	require.Equal(t, Present, l.Purpose, "a gave the last answer, which made b's stop stale: both are stopped")
	require.Empty(t, l.Brief.Stops)

	p = answered(teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent = Decomposition, 1 }, "a", "b"))
	p.batch(p.stop("a", Complete), p.answer("b"))
	l = theLaunch(t, p.batch(p.stop("a", Complete)))
	require.Equal(t, Present, l.Purpose, "b has answered once and has seen all there is")
	require.Equal(t, []StopNote{{Number: 1, Status: Complete, Summary: "a's part"}}, l.Brief.Stops)
}

// joining plays a team of three until every part has a stop and c joins them.
func joining(t *testing.T, set func(*Config)) *player {
	t.Helper()
	p := answered(teamWith(func(o *Config) { o.Mode = Decomposition; set(o) }, "a", "b", "c"))
	l := theLaunch(t, p.batch(p.stop("a", Complete), p.stop("b", Blocked), p.stop("c", Complete)))
	require.Equal(t, "c", l.Agent)
	return p
}

// 44. Seed 001, finalization: "decomposition mode -> configured presenter (or fallback)". A single
// part does not answer the query, so that the next agent joins the parts if the presenter fails.
func TestRule44_NextAgentJoinsTheParts(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"continue", "fail"} {
		p := joining(t, func(o *Config) { o.OnAgentFailure = policy })
		seq := p.state.Events
		l := theLaunch(t, p.batch(p.fail("c")))
		require.Equal(t, "b", l.Agent)
		require.Equal(t, Present, l.Purpose)
		require.Equal(t, answerOnly, l.Offered)
		require.Empty(t, l.ResumeFrom, "it is not c's step")
		require.Equal(t, []StopNote{
			{Number: 1, Status: Complete, Summary: "a's part"}, {Number: 2, Status: Blocked, Summary: "b's part"},
		}, l.Brief.Stops, "c's stop is void")
		require.Equal(t, []string{
			"failed: c failed: overloaded", "refused: c presented nothing; b presents instead",
		}, texts(p.state, seq))
		d := decision(t, p.batch(p.answer("b")))
		require.Equal(t, Presented, d.Status)
		require.Equal(t, "b", d.Winner)
		require.Equal(t, "agent2.final", d.WinnerLabel)
		require.Equal(t, "agent2.final", d.Final.Label)
	}
}

// 44. "presenter_agent; else, in decomposition, the agent configured last". Substitutes are tried
// in this order.
func TestRule44_SubstitutePresenter(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Mode, o.Presenter = Decomposition, "b" }, "a", "b", "c"))
	p.batch(p.stop("a", Complete), p.stop("b", Complete), p.stop("c", Complete))
	require.Equal(t, "b", p.latestLaunched(Present))
	require.Equal(t, "c", theLaunch(t, p.batch(p.fail("b"))).Agent)
	require.Equal(t, "a", theLaunch(t, p.batch(p.fail("c"))).Agent)
}

// 45. If no agent is left, the existing part is the result, and the timeline says that the parts
// were not joined.
func TestRule45_NoAgentLeftToJoinTheParts(t *testing.T) {
	t.Parallel()
	p := joining(t, func(*Config) {})
	p.batch(p.fail("c"))
	p.batch(p.fail("b"))
	seq := p.state.Events
	require.Equal(t, Decision{
		Status: Presented, Winner: "c", WinnerLabel: "agent3.1", WinnerStep: 1, Votes: []count{},
	}, decision(t, p.batch(p.fail("a"))))
	require.Equal(t, []string{
		"failed: a failed: overloaded",
		"refused: a ended without an action; the parts were not joined, the present answer stands",
		"decided: presented: c (agent3.1)",
	}, texts(p.state, seq))
}

// 45. If the presenting step ends without failing, or the budget is spent, no other agent presents,
// and the existing part is the result.
func TestRule45_NoSubstituteOutsideDecomposition(t *testing.T) {
	t.Parallel()
	last := "refused: c ended without an action; the parts were not joined, the present answer stands"
	p := joining(t, func(*Config) {})
	require.Equal(t, "agent3.1", decision(t, p.batch(p.exhaust("c"))).WinnerLabel)
	require.Contains(t, texts(p.state, 0), last)

	p = joining(t, func(o *Config) { o.Budget.Tokens = 10 })
	failed := p.fail("c").(Failed)
	failed.Usage = llm.Usage{InputTokens: 10, ModelCalls: 1}
	require.Equal(t, "agent3.1", decision(t, p.batch(failed)).WinnerLabel)
	require.Contains(t, texts(p.state, 0), last)
}

// 44. A session that is parked because of its presenter waits for it.
func TestRule44_ParkedForThePresenterOfTheParts(t *testing.T) {
	t.Parallel()
	p := joining(t, parking)
	require.Empty(t, p.batch(p.fail("c")))
	l := theLaunch(t, p.batch(Retry{}))
	require.Equal(t, "c", l.Agent)
	require.NotEmpty(t, l.ResumeFrom)
}

// 46. "The same agent then judges the final answer". The substitute also judges. Without a
// judgement the joined answer is the result.
func TestRule46_SubstituteJudges(t *testing.T) {
	t.Parallel()
	p := joining(t, restartable)
	p.batch(p.fail("c"))
	l := theLaunch(t, p.batch(p.answer("b")))
	require.Equal(t, Evaluate, l.Purpose)
	require.Equal(t, "b", l.Agent)
	require.Equal(t, "agent2.final", decision(t, p.batch(p.fail("b"))).WinnerLabel, "a judgement is not asked for twice")
}

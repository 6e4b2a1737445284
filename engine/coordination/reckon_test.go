package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

var threeCalls = llm.Usage{InputTokens: 300, OutputTokens: 30, ModelCalls: 3}

// 58. The usage of a suspended step is counted, also in the budget.
func TestRule58_SuspendedStepSpendsTheBudget(t *testing.T) {
	t.Parallel()
	c := team("a")
	c.Budget = Allowance{Tokens: 400}
	p := start(c)
	p.batch(Pause{})
	p.batch(Suspended{End: End{Launch: "l1", Step: 1, Usage: threeCalls}, Token: "run-l1"})
	require.Equal(t, threeCalls, p.state.Cost())
	require.EqualValues(t, 70, theLaunch(t, p.batch(Resume{})).Allowance.Tokens)
	p.batch(Pause{})
	p.batch(Suspended{End: End{Launch: "l2", Step: 2, Usage: threeCalls}, Token: "run-l2"})
	require.Empty(t, only[Launch](p.batch(Resume{})), "the budget is spent")
}

// 59. "A step that goes on reports the usage of the journal it took over only if nobody has".
func TestRule59_UsageIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		usage     llm.Usage
		uncounted bool
	}{
		"reported": {threeCalls, false},
		"unknown":  {llm.Usage{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, end := range []Event{
				Suspended{End: End{Launch: "l1", Usage: tt.usage}, Token: "run-l1"},
				Failed{End: End{Launch: "l1", Usage: tt.usage}, Token: "run-l1"},
			} {
				c := team("a")
				c.OnAgentFailure = "park"
				s := New(c)
				s.Drain()
				s.Step(Pause{})
				s.Drain()
				s.Step(end)
				s.Step(Resume{})
				s.Step(Retry{}) // ignored after a suspension
				l := theLaunch(t, s.Drain())
				require.Equal(t, "run-l1", l.ResumeFrom)
				require.Equal(t, tt.uncounted, l.Uncounted)
			}
		})
	}
}

// 60. If a resumed step left no record, not even a claim, the step that it resumed is resumed
// again.
func TestRule60_EmptyStepKeepsItsPredecessor(t *testing.T) {
	t.Parallel()
	for _, usage := range []llm.Usage{{}, threeCalls} {
		p := start(team("a"))
		p.batch(Pause{})
		p.batch(Suspended{End: End{Launch: "l1", Step: 1, Usage: usage}, Token: "run-l1"})
		first := theLaunch(t, p.batch(Resume{}))
		p.batch(Pause{})
		p.batch(Suspended{End: End{Launch: "l2"}})
		second := theLaunch(t, p.batch(Resume{}))
		require.Equal(t, "run-l1", second.ResumeFrom)
		require.Equal(t, first.Uncounted, second.Uncounted)
	}
}

// 61. A retried step is replaced if one of its actions is no longer permitted. The new step gets
// its files.
func TestRule61_ReplacedStepGivesItsFiles(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.AnswersGlobal = 3 }, "a", "b"))
	failed := p.last("a").ID
	p.batch(p.fail("a"), p.exhaust("b"))
	p.batch(p.answer("b"))
	l := theLaunch(t, p.batch(Retry{Agent: "a"}))
	require.Equal(t, voteOnly, l.Offered)
	require.Empty(t, l.ResumeFrom)
	require.Equal(t, tokenOf(failed), l.FilesFrom)
}

// 61. A retried step is dropped while its agent has no permitted action. The agent's next step gets
// its files.
func TestRule61_DroppedStepGivesItsFiles(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.AnswersGlobal = 1 }, "a", "b"))
	failed := p.last("a").ID
	require.Equal(t, "b", theLaunch(t, p.batch(p.fail("a"))).Agent)
	require.Empty(t, launches(p.batch(Retry{Agent: "a"})), "the running step has reserved the only answer left")
	l := launches(p.batch(p.exhaust("b")))[0]
	require.Equal(t, "a", l.Agent)
	require.Empty(t, l.ResumeFrom)
	require.Equal(t, tokenOf(failed), l.FilesFrom)
	require.Empty(t, theLaunch(t, p.batch(p.exhaust("a"))).FilesFrom, "once")
}

// 65. A step that had not claimed a number is not resumed. Its predecessor is resumed instead.
func TestRule65_UnclaimedStepKeepsItsPredecessor(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	p.batch(Pause{})
	p.batch(Suspended{End: End{Launch: "l1", Step: 1}, Token: "run-l1"})
	second := theLaunch(t, p.batch(Resume{}))
	require.Equal(t, []Launch{second}, p.state.RunningSteps())
	third := theLaunch(t, p.batch(Reopened{Run: "run", Unclaimed: []LaunchID{second.ID}}))
	require.Equal(t, "run-l1", third.ResumeFrom)
	require.True(t, third.Uncounted)
}

package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func timed(t *task) { t.Soft, t.Grace = 10*time.Minute, 2*time.Minute }

func reads(takes time.Duration) turn { return turn{calls: reply(reading).ToolCalls, takes: takes} }

// Seed 001, "soft timeout: injects wrap-up guidance", once, and "hard timeout: blocks
// non-terminal tools after grace period".
func TestLimits_softTimeout(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, timed)
	p := play(t, t.Context(), task,
		reads(9*time.Minute),
		reads(time.Minute), // the soft limit: told
		reads(time.Minute), // grace
		reads(59*time.Second),
		reads(time.Second), // over: denied
		turn{calls: reply(reading, vote("agent3")).ToolCalls, while: func() { w.answer(2, 1, "Late."); w.say(1, "Late.") }},
	)
	require.NoError(t, p.err)
	require.Len(t, p.updates(), 1)
	require.Contains(t, p.requests[2].Messages[len(p.requests[2].Messages)-1].Content, "After 120 more seconds of work every other call is denied.")
	require.Len(t, p.ran, 4, "denied calls are not run")
	require.Equal(t, "vote", p.action.Kind, "a terminal call still counts, and the last look is left out")
	require.Equal(t, []string{
		"Denied (2 of 10): your time for this turn is over. Only new_answer or vote can be called now; submit the best you have.",
		"Your vote for agent3.1 is recorded.",
	}, p.results())
	p.requireRestores(t, task)
}

// A model call that exceeds the soft limit does not reduce the grace period.
func TestLimits_grace(t *testing.T) {
	t.Parallel()
	p := play(t, t.Context(), with(evaluation(), timed), reads(time.Hour), reads(119*time.Second), reads(time.Second))
	require.ErrorIs(t, p.err, scriptError{})
	require.Len(t, p.updates(), 1)
	require.Len(t, p.ran, 2)
}

// Seed 001, "repeated denied tool calls after hard timeout can force agent turn
// termination": ten of them, by call.
func TestLimits_denials(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), timed)
	turns := []turn{reads(10 * time.Minute), reads(2 * time.Minute)}
	for range 3 {
		turns = append(turns, turn{calls: reply(reading, reading, reading).ToolCalls})
	}
	p := play(t, t.Context(), task, append(turns, reads(0))...)
	require.Equal(t, &loop.TimeOverError{Denials: 10}, p.err)
	require.Len(t, p.requests, 5, "the second turn was denied already")
	require.NotContains(t, p.kinds(), loop.Rejection, "a denial is no rejection")
	require.Equal(t, []string{"read_file"}, p.ran)
	require.Equal(t, p.err, updatesError(t, p.restored(t, task)))
	require.EqualError(t, p.err, "no action: the step's time was over, and 10 calls that could not be made any more were denied; timeout_settings can give it more time")
}

// The tools that are open after the limit depend on the kind of step.
func TestLimits_evaluation(t *testing.T) {
	t.Parallel()
	p := play(t, t.Context(), with(with(evaluation(), timed), evaluating),
		reads(10*time.Minute), reads(2*time.Minute), turn{calls: reply(call("submit", "")).ToolCalls})
	require.NoError(t, p.err)
	require.Contains(t, p.requests[2].Messages[len(p.requests[2].Messages)-1].Content, "Only submit or restart_orchestration can be called now")
}

// The end of the session is announced once, like a soft limit, without answers of peers. If there
// are no limits, no call is denied.
func TestLimits_wrapUp(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, gated)
	p := play(t, t.Context(), task,
		turn{calls: reply(reading).ToolCalls, while: func() { w.available.WrapUp = true; w.answer(2, 1, "Two.") }},
		reads(time.Hour),
		does(vote("agent1")))
	require.NoError(t, p.err)
	require.Len(t, p.updates(), 1)
	require.Contains(t, p.updates()[0], "The session is about to end. Finish now")
	require.NotContains(t, p.updates()[0], "denied")
	require.Len(t, p.ran, 2)
	p.requireRestores(t, task)
}

// The checklist's tools do not end a step, and are therefore denied.
func TestLimits_checklist(t *testing.T) {
	t.Parallel()
	task := with(with(evaluation(), timed), gated)
	p := play(t, t.Context(), task,
		reads(10*time.Minute), reads(2*time.Minute),
		turn{calls: reply(scores(9, "agent1.2", "agent3.1")).ToolCalls}, does(vote("agent1")))
	require.NoError(t, p.err)
	require.Contains(t, p.offered(1), "submit_checklist")
	require.Equal(t, []string{"new_answer", "vote"}, p.offered(2))
	require.Contains(t, p.requests[3].Messages[len(p.requests[3].Messages)-1].Content, "Denied (2 of 10)")
}

// The step is warned once when its allowance is nearly spent, and ends before a call that it cannot
// pay for. Calls of unknown price count as free.
func TestLimits_allowance(t *testing.T) {
	t.Parallel()
	usd := func(v float64) llm.Usage { return llm.Usage{TotalUSD: &v, ModelCalls: 1} }
	for name, c := range map[string]struct {
		allowance coordination.Allowance
		usage     llm.Usage // of each call
		calls     int       // until the step ends itself; 0: it does not
		want      int
	}{
		"none":                {coordination.Allowance{}, llm.Usage{InputTokens: 1 << 40}, 0, 0},
		"tokens":              {coordination.Allowance{Tokens: 10}, llm.Usage{InputTokens: 1, OutputTokens: 1}, 5, 1},
		"tokens, at once":     {coordination.Allowance{Tokens: 10}, llm.Usage{OutputTokens: 10}, 1, 0},
		"tokens, warned once": {coordination.Allowance{Tokens: 1000}, llm.Usage{OutputTokens: 165}, 0, 1},
		"tokens, just less":   {coordination.Allowance{Tokens: 1000}, llm.Usage{OutputTokens: 133}, 0, 0},
		"money":               {coordination.Allowance{USD: 1}, usd(0.25), 4, 0},
		"money, warned":       {coordination.Allowance{USD: 1}, usd(0.2), 5, 1},
		"unknown price":       {coordination.Allowance{USD: 1}, llm.Usage{InputTokens: 1 << 40}, 0, 0},
		"known in part":       {coordination.Allowance{USD: 1}, usd(0.25).Add(llm.Usage{ModelCalls: 1}), 4, 0},
		"both, money first":   {coordination.Allowance{USD: 1, Tokens: 1000}, llm.Usage{InputTokens: 1, TotalUSD: usd(0.5).TotalUSD}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.Allowance = c.allowance
			var turns []turn
			for range 6 {
				turns = append(turns, turn{calls: reply(reading).ToolCalls, usage: c.usage})
			}
			turns = append(turns, turn{calls: reply(vote("agent1")).ToolCalls})
			p := play(t, t.Context(), task, turns...)
			require.Len(t, p.updates(), c.want)
			if c.calls == 0 {
				require.NoError(t, p.err)
				return
			}
			require.Equal(t, &loop.EndedError{Why: loop.EndAllowance}, p.err)
			require.Len(t, p.requests, c.calls)
			require.Equal(t, p.err, updatesError(t, p.restored(t, task)))
		})
	}
}

// updatesError returns the error of Updates.
func updatesError(t *testing.T, rules *rules) error {
	t.Helper()
	_, err := rules.Updates(t.Context())
	return err
}

// The time of a round is added up over attempts: a paused step resumes with the remaining time. A
// step that failed because its time was over has the full time in a retry; it is warned again, and
// no call is denied before that.
func TestLimits_resumed(t *testing.T) {
	t.Parallel()
	r := newRules(with(evaluation(), timed))
	_, err := r.Opening()
	require.NoError(t, err)
	learn := func(e loop.Entry) { require.NoError(t, r.Learn(t.Context(), e)) }
	learn(loop.Entry{Kind: loop.Reply, Seconds: (10 * time.Minute).Seconds()})
	guidance, err := r.Updates(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, guidance.Messages)
	learn(loop.Entry{Kind: loop.Updated, Messages: guidance.Messages, Note: guidance.Note})
	learn(loop.Entry{Kind: loop.Reply, Seconds: (2 * time.Minute).Seconds()})
	learn(loop.Entry{Kind: loop.Resumed})
	verdict := r.Judge(reply(reading))
	require.NotEmpty(t, verdict.Results, "the hard limit is past, pause or not")

	for range maxDenials {
		learn(loop.Entry{Kind: loop.Results, Note: verdict.Note})
	}
	_, err = r.Updates(t.Context())
	var over *loop.TimeOverError
	require.ErrorAs(t, err, &over)
	learn(loop.Entry{Kind: loop.Resumed})
	require.Empty(t, r.Judge(reply(reading)).Results)
	again, err := r.Updates(t.Context())
	require.NoError(t, err)
	require.Empty(t, again.Messages)
}

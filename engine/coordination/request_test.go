package coordination

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// 25. DESIGN: "Pause, finish and cancel upsert the memo and then cancel the activity
// ...; a step ended so is suspended: no failure, no counted step."
func TestRule25_PauseSuspends(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.MaxStepsPerAgent = 2 }, "a", "b"))
	commands := p.batch(Pause{})
	require.Equal(t, Pausing, only[Ring](commands)[0].Directive)
	require.Equal(t, []Cancel{{ID: "l1", Suspend: true}, {ID: "l2", Suspend: true}}, only[Cancel](commands))
	require.IsType(t, Ring{}, commands[0], "the ring comes before the cancel")
	require.True(t, p.state.View().Paused)
	require.True(t, p.state.Held())

	require.Empty(t, p.batch(p.suspend("a"), p.suspend("b")), "nobody is launched")
	launches := launches(p.batch(Resume{}))
	require.Len(t, launches, 2)
	for i, l := range launches {
		require.Equal(t, []string{"run-l1", "run-l2"}[i], l.ResumeFrom)
		require.Equal(t, 1, l.Round)
		require.Equal(t, 1, l.After)
	}
	require.False(t, p.state.Held())
	p.batch(p.answer("a"), p.answer("b"))
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("a", "b"), p.vote("b", "b"))).Status, "two steps each: the suspended ones were none")
}

// 25. DESIGN: "A retry is the same step: retry, resume after pause and continue-as-new launch with
// resume_from". Its actions remain the same, even if more are permitted now.
func TestRule25_ResumedWithItsActions(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	p.batch(Pause{})
	require.Len(t, only[Record](p.batch(p.answer("b"))), 1, "a step that was quicker than the pause has acted")
	p.batch(p.suspend("a"))
	l := theLaunch(t, p.batch(Resume{}))
	require.Equal(t, "run-l1", l.ResumeFrom)
	require.Equal(t, answerOnly, l.Offered)
	require.Empty(t, l.Shown, "its first answer is its own")
}

// 25. If one of its actions is no longer permitted, a new step replaces it.
func TestRule25_NewStepIfAnActionIsClosed(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.AnswersGlobal = 3 }, "a", "b"))
	require.Equal(t, answerOrVote, p.last("a").Offered)
	p.batch(p.fail("a"), p.exhaust("b"))
	p.batch(p.answer("b")) // the third answer
	p.batch(p.vote("b", "b"))
	require.True(t, p.state.Done(), "b is the only active one")

	p = answered(teamWith(func(o *Config) { o.AnswersGlobal = 3 }, "a", "b"))
	p.batch(p.fail("a"), p.exhaust("b"))
	p.batch(p.answer("b"))
	l := theLaunch(t, p.batch(Retry{Agent: "a"}))
	require.Equal(t, voteOnly, l.Offered)
	require.Empty(t, l.ResumeFrom)
}

// 25. A pause continues after the ends of its steps, and a step can be suspended twice.
func TestRule25_PausedTwice(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	p.batch(Pause{})
	p.batch(Resume{}) // before the step has ended
	require.Equal(t, "run-l1", theLaunch(t, p.batch(p.suspend("a"))).ResumeFrom)
	require.Equal(t, []Cancel{{ID: "l2", Suspend: true}}, only[Cancel](p.batch(Pause{})))
	p.batch(p.suspend("a"))
	require.Equal(t, "run-l2", theLaunch(t, p.batch(Resume{})).ResumeFrom)
}

// 26. Seed 001: "Non-peer runtime payloads can also inject: runtime human input". DESIGN: "What was
// accepted is on record". This includes messages, in order.
func TestRule26_SayIsOnTheLedger(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	commands := p.batch(p.answer("a"), Said{Text: "all of you \xff"}, Said{Agent: "b", Text: "b"})
	require.Equal(t, []Record{
		{Entry: Accepted{Seq: 1, Agent: "a", Step: 1, Action: NewAnswer, Label: "agent1.1"}},
		{Entry: Accepted{Seq: 2, Action: Say, Message: 1, Text: "all of you \uFFFD"}},
		{Entry: Accepted{Seq: 3, Agent: "b", Action: Say, Message: 2, Text: "b"}},
	}, only[Record](commands))
	require.Equal(t, 2, p.state.View().Messages)
	require.NotContains(t, marshal(t, p.state.Bell), "all of you", "bells and launches carry numbers, not texts")
}

// 27. DESIGN: "park (wait, visibly, for retry, finish or cancel)".
func TestRule27_Park(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(parking, "a", "b", "c"))
	p.batch(p.vote("a", "b"), p.fail("b"))
	require.Equal(t, "retry, finish or cancel: b failed, overloaded: the model was overloaded", *p.state.View().Parked)
	require.Empty(t, only[Cancel](p.drain()), "running steps continue")
	require.Empty(t, launches(p.batch(p.vote("c", "b"))), "two of two would be a majority, and nobody is asked")
	require.False(t, p.state.Done())
	require.True(t, p.state.Held())

	require.Equal(t, []string{"b"}, launched(p.batch(Retry{})))
	require.Nil(t, p.state.View().Parked)
	require.False(t, p.state.Held())
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("b", "b"))).Status)
}

func parking(o *Config) { o.OnAgentFailure = "park" }

// 27. A forced decision ends a parked session; a spent budget does not.
func TestRule27_ReleasingAParkedSession(t *testing.T) {
	t.Parallel()
	for status, event := range map[Status]Event{Finished: Finish{}, Timeout: TimeUp{}} {
		p := start(teamWith(func(o *Config) { o.OnAgentFailure, o.Budget.Tokens = "park", 10 }, "a", "b"))
		p.batch(spending(p.answer("a"), 20), p.fail("b"))
		require.Empty(t, p.drain())
		require.True(t, p.state.Held())
		require.Equal(t, status, decision(t, p.batch(event)).Status)
		require.False(t, p.state.Held())
		require.Nil(t, p.state.View().Parked)
	}
}

// 27. While another agent has failed, only the retried agent is launched.
func TestRule27_OneOfTwoRetried(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(parking, "a", "b", "c"))
	p.batch(p.fail("a"), p.fail("b"), p.answer("c"))
	require.Equal(t, []string{"a"}, launched(p.batch(Retry{Agent: "a"})))
	require.Empty(t, launches(p.batch(p.vote("a", "c"))))
	require.Equal(t, "retry, finish or cancel: b failed, overloaded: the model was overloaded", *p.state.View().Parked)
	require.Equal(t, []string{"b"}, launched(p.batch(Retry{})))
}

// 27. A suspended or restarted step is not resumed while the session is parked.
func TestRule27_ParkedLaunchesNothing(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnAgentFailure, o.Updates = "park", Restart }, "a", "b", "c", "d"))
	p.batch(p.fail("a"), p.answer("d"))
	require.Empty(t, launches(p.batch(p.suspend("b"), p.restart("c"))))
	require.Equal(t, []string{"a", "b", "c"}, launched(p.batch(Retry{})), "in the round that is not over; d waits for the next")
}

// 27. DESIGN: on_agent_failure "fail": the session fails as soon as an agent does.
func TestRule27_Fail(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.OnAgentFailure = "fail" }, "a", "b"))
	d := decision(t, p.batch(p.fail("b")))
	require.Equal(t, FailedAll, d.Status)
	require.EqualValues(t, "AgentFailed", d.Cause)
}

// 28. DESIGN: "A retry is the same step: ... the journal is copied and the paid calls kept." It is
// counted once, and does not require the session to be parked.
func TestRule28_RetryIsTheSameStep(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"continue", "park"} {
		p := start(teamWith(func(o *Config) { o.OnAgentFailure, o.MaxStepsPerAgent = policy, 1 }, "a", "b"))
		for range 3 {
			p.batch(p.fail("a"))
			require.Equal(t, "failed", p.state.View().Agents[0].Status)
			token := tokenOf(p.latest["a"])
			l := theLaunch(t, p.batch(Retry{Agent: "a"}))
			require.Equal(t, token, l.ResumeFrom)
			require.Equal(t, 1, l.Round)
			require.Equal(t, "no_action", p.state.View().Agents[0].Status)
			require.Nil(t, p.state.View().Agents[0].Error)
		}
		p.batch(p.answer("a"))
		require.Equal(t, Limit, decision(t, p.batch(p.answer("b"))).Status, "its one step has ended once")
	}
}

// 28. A step that failed before it claimed a number can also be retried.
func TestRule28_RetryOfAnUnclaimedStep(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	p.batch(Failed{End: End{Launch: "l1"}, Cause: Failure{Type: "no_worker", Message: "nobody took it"}})
	l := theLaunch(t, p.batch(Retry{}))
	require.Zero(t, l.After)
	require.Empty(t, l.ResumeFrom, "there is no journal to resume from")
}

// 28. A step retried during a pause is launched after the pause.
func TestRule28_RetryWhilePaused(t *testing.T) {
	t.Parallel()
	p := start(teamWith(parking, "a", "b"))
	p.batch(p.fail("a"), Pause{})
	require.Empty(t, launches(p.batch(Retry{Agent: "a"}, p.suspend("b"))))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(Resume{})))
}

// 29. DESIGN: "Updates validate and refuse with a reason; signals that make no sense are logged and
// ignored". If such an event is stepped nevertheless, it changes nothing.
func TestRule29_Refuse(t *testing.T) {
	t.Parallel()
	running := func() *player { return answered(team("a", "b")) }
	over := func() *player { p := running(); p.batch(Finish{}); return p }
	parked := func() *player { p := answered(teamWith(parking, "a", "b")); p.batch(p.fail("a")); return p }
	paused := func() *player { p := running(); p.batch(Pause{}); return p }
	talked := func() *player {
		p := running()
		for range 100 {
			p.step(Said{Text: "more"})
		}
		p.drain()
		return p
	}
	asked := func() *player { p := running(); p.step(TimeUp{}); return p }
	for name, test := range map[string]struct {
		player func() *player
		event  Event
		why    string // empty: it makes sense
	}{
		"pause":                   {running, Pause{}, ""},
		"pause twice":             {paused, Pause{}, "the session is paused already"},
		"resume":                  {paused, Resume{}, ""},
		"resume a running one":    {running, Resume{}, "the session is not paused"},
		"resume a parked one":     {parked, Resume{}, "the session is not paused but parked: retry, finish or cancel: a failed, overloaded: the model was overloaded"},
		"finish":                  {running, Finish{}, ""},
		"finish a paused one":     {paused, Finish{}, ""},
		"finish a parked one":     {parked, Finish{}, ""},
		"finish after time is up": {asked, Finish{}, "a decision was asked for already"},
		"pause after time is up":  {asked, Pause{}, "a decision was asked for already"},
		"say after time is up":    {asked, Said{Text: "well"}, "a decision was asked for already"},
		"retry":                   {parked, Retry{}, ""},
		"retry one":               {parked, Retry{Agent: "a"}, ""},
		"retry without a failure": {running, Retry{}, "no agent has failed"},
		"retry one who has not":   {parked, Retry{Agent: "b"}, "agent b has not failed"},
		"retry a stranger":        {parked, Retry{Agent: "x"}, `the team has no agent "x"; it has: a, b`},
		"say":                     {running, Said{Text: "well"}, ""},
		"say to one":              {paused, Said{Agent: "b", Text: strings.Repeat("é", MaxText/2)}, ""},
		"say nothing":             {running, Said{Text: " \n"}, "the text is empty"},
		"say too much":            {running, Said{Text: strings.Repeat("é", MaxText)}, "the text has 8192 bytes, at most 4096 are accepted"},
		"say it once too often":   {talked, Said{Text: "more"}, "the session has 100 messages, the most that it accepts"},
		"say to a stranger":       {running, Said{Agent: "x", Text: "well"}, `the team has no agent "x"; it has: a, b`},
		"pause an ended one":      {over, Pause{}, "the session is over"},
		"resume an ended one":     {over, Resume{}, "the session is over"},
		"finish an ended one":     {over, Finish{}, "the session is over"},
		"retry an ended one":      {over, Retry{}, "the session is over"},
		"say when all is over":    {over, Said{Text: "well"}, "the session is over"},
		"not a request":           {over, TimeUp{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := test.player()
			err := p.state.Refuse(test.event)
			if test.why == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.why)
			before, events := p.state.View(), p.state.Events
			p.step(test.event)
			after := p.state.View()
			require.Equal(t, events+1, after.Events, "it is noted")
			after.Events = before.Events
			require.Equal(t, before, after, "and changes nothing")
			timeline := p.state.Timeline()
			require.Equal(t, "ignored", timeline[len(timeline)-1].Kind)
			require.Contains(t, timeline[len(timeline)-1].Text, test.why)
		})
	}
}

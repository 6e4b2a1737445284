package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 14. DESIGN: "Human messages (say) are news". An agent with an unread message is launched even at
// a limit. At the global limit it may only stop.
func TestRule14_MessagesAreHeardAtTheGlobalLimit(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 3 }, "a", "b", "c"))
	p.batch(Said{Agent: "a", Text: "mind the gap"})
	commands := p.batch(p.answer("a"), p.answer("b"), p.answer("c"))
	require.Equal(t, map[string][]Action{"a": stopOnly}, offeredTo(commands))
	require.Equal(t, []Message{{Number: 1, Agent: "a"}}, p.last("a").Messages)
	require.NotNil(t, p.state.View().Agents[1].Stop, "b has no message, and is stopped")
	l := theLaunch(t, p.batch(p.exhaust("a")))
	require.Equal(t, Present, l.Purpose, "once a has received it")
}

// 14. A message also launches an agent that the session has stopped.
func TestRule14_MessagesWakeStoppedAgents(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) {
		o.Mode, o.AnswersPerAgent, o.Pacing = Decomposition, 1, "continuous"
	}, "a", "b"))
	require.Empty(t, launches(p.batch(p.answer("a"))), "one in a row: a is stopped, b works")
	require.NotNil(t, p.state.View().Agents[0].Stop)
	require.Equal(t, map[string][]Action{"a": answerOrStop}, offeredTo(p.batch(Said{Text: "mind the gap"})))
}

// 14. "streak resets when agent observes unseen external updates". A message, too, ends a streak,
// at a launch or during a step.
func TestRule14_AMessageEndsAStreak(t *testing.T) {
	t.Parallel()
	twoInARow := teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent = Decomposition, 2 }, "a", "b")
	p := answered(twoInARow)
	p.batch(p.answer("a"), p.stop("b", Complete), Said{Agent: "a", Text: "mind the gap"})
	require.Equal(t, []Message{{Number: 1, Agent: "a"}}, p.last("a").Messages)
	p.batch(p.answer("a"), p.stop("b", Complete))
	require.Equal(t, 1, p.state.Agents[0].Streak, "the first since the message")
	require.Nil(t, p.state.View().Agents[0].Stop)

	for heard, want := range map[int]int{0: 2, 1: 1} {
		p = answered(twoInARow)
		p.batch(p.exhaust("a"), p.stop("b", Complete))
		p.batch(p.answer("a"))
		require.Equal(t, 1, p.state.Agents[0].Streak)
		p.batch(Said{Agent: "a", Text: "mind the gap"}, Said{Agent: "b", Text: "and you"})
		answer := p.answer("a").(Answered)
		answer.Heard = heard
		p.batch(answer, p.stop("b", Complete))
		if heard == 0 { // it receives it with the next launch, which ends the streak
			want = 0
		}
		require.Equal(t, want, p.state.Agents[0].Streak, "heard %d", heard)
		require.Nil(t, p.state.View().Agents[0].Stop)
	}
}

// 14. A message also ends a streak when a suspended step is replaced.
func TestRule14_AMessageEndsAStreakOfAResumedStep(t *testing.T) {
	t.Parallel()
	one := 1
	p := start(teamWith(func(o *Config) { o.Mode, o.AnswersPerAgent, o.LeadCap = Decomposition, 2, &one }, "a", "b"))
	p.batch(p.answer("a"), p.stop("b", Complete))
	require.Equal(t, map[string][]Action{"a": answerOrStop}, offeredTo(p.batch(p.exhaust("a"), p.stop("b", Complete))))
	require.Equal(t, 1, p.state.Agents[0].Streak)
	p.batch(Pause{})
	p.batch(p.suspend("a"), Said{Text: "mind the gap"})
	l := theLaunch(t, p.batch(Resume{}))
	require.Equal(t, stopOnly, l.Offered, "b, which has not received it yet, may still catch up")
	require.Empty(t, l.ResumeFrom)
	require.Zero(t, p.state.Agents[0].Streak)
}

// 15, 18. DESIGN: "Human messages (say) are news". If nobody votes, an agent with an unread message
// answers again. Other agents are not launched.
func TestRule18_MessagesWhereNobodyVotes(t *testing.T) {
	t.Parallel()
	for _, pacing := range []string{"rounds", "continuous"} {
		p := start(teamWith(func(o *Config) { o.SkipVoting, o.Pacing = true, pacing }, "a", "b", "c"))
		p.batch(Said{Text: "in metres"}, Said{Agent: "c", Text: "and you in feet"})
		heard := p.answer("b").(Answered)
		heard.Heard = 1
		commands := p.batch(p.answer("a"), heard, p.answer("c"))
		require.Equal(t, map[string][]Action{"a": answerOnly, "c": answerOnly}, offeredTo(commands), pacing)
		require.Equal(t, []Message{{Number: 1}}, p.last("a").Messages)
		d := decision(t, p.batch(p.answer("a"), p.exhaust("c")))
		require.Equal(t, Presented, d.Status, "c has received it, and its answer stays")
		require.Equal(t, "agent1.2", d.WinnerLabel)
	}
}

// 15, 18. A message does not raise a limit on answers or steps, and only an answer would be owed.
// The session is presented as if the message had not been sent.
func TestRule18_NoAnswerLeftForAMessage(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Config){
		"max_new_answers_per_agent": func(o *Config) { o.SkipVoting, o.AnswersPerAgent = true, 1 },
		"max_new_answers_global":    func(o *Config) { o.SkipVoting, o.AnswersGlobal = true, 2 },
		"max_steps_per_agent":       func(o *Config) { o.SkipVoting, o.MaxStepsPerAgent = true, 1 },
		"synthesize once":           func(o *Config) { o.Strategy, o.AnswersPerAgent, o.SkipPresentation = synthesize, 1, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(teamWith(set, "a", "b"))
			p.batch(Said{Text: "in metres"})
			commands := p.batch(p.answer("a"), p.answer("b"))
			for _, l := range launches(commands) {
				require.Equal(t, Present, l.Purpose)
				require.Equal(t, []Message{{Number: 1}}, l.Messages)
				commands = p.batch(p.exhaust(l.Agent))
			}
			require.Equal(t, Presented, decision(t, commands).Status)
		})
	}
}

// 11. The last place under the global limit goes to the agent configured first.
func TestRule18_OneAnswerLeftForAMessage(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.SkipVoting, o.AnswersGlobal = true, 3 }, "a", "b"))
	p.batch(Said{Text: "in metres"})
	require.Equal(t, []string{"a"}, launched(p.batch(p.answer("a"), p.answer("b"))))
	require.Equal(t, Presented, decision(t, p.batch(p.answer("a"))).Status)
}

// 15. An agent that has answered does not owe an answer to a message, although the message launches
// it once more.
func TestRule18_MessagesAreNotOwed(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.SkipVoting = true }, "a", "b"))
	p.batch(Said{Text: "in metres"})
	p.batch(p.answer("a"), p.answer("b"))
	require.True(t, p.state.View().Agents[0].Running)
	require.Equal(t, 99, p.state.View().Completion)
}

// 26. DESIGN: "Human messages (say) are news". After the decision they reach the presenter, and
// votes remain fresh.
func TestRule26_SaidAfterTheDecision(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy = winnerPresent }, "a", "b"))
	commands := p.batch(Said{Text: "keep it short"})
	require.Len(t, only[Ring](commands), 1, "the bell rings for the presenter")
	view := p.state.View()
	require.Equal(t, map[string]int{"a": 2}, view.Votes)
	require.False(t, view.Agents[1].Vote.Stale)
	require.Equal(t, 99, view.Completion)
	require.Equal(t, []count{{Target: "a", Votes: 2}}, decision(t, p.batch(p.answer("a"))).Votes)
	require.Equal(t, map[string]int{"a": 2}, p.state.View().Votes)
}

// 26. After the decision stops remain fresh, and a substitute presenter also receives the message.
func TestRule26_StopsStandAfterTheDecision(t *testing.T) {
	t.Parallel()
	p := joining(t, func(*Config) {})
	p.batch(Said{Text: "mind the gap"})
	require.False(t, p.state.View().Agents[0].Stop.Stale)
	l := theLaunch(t, p.batch(p.fail("c")))
	require.Len(t, l.Brief.Stops, 2)
	require.Equal(t, []Message{{Number: 1}}, l.Messages)
}

// 26. When the team begins again, messages from the finale count like others.
func TestRule26_SaidBeforeBeginningAgain(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(restartable, "a", "b"))
	p.batch(Said{Text: "the numbers, please"})
	for _, l := range launches(p.batch(p.evaluate("a", true))) {
		require.Equal(t, []Message{{Number: 1}}, l.Messages)
	}
	p.batch(p.answer("a"), p.answer("b"))
	deaf := p.vote("a", "a").(Voted)
	deaf.Heard = 0
	require.Equal(t, []string{"a"}, launched(p.batch(deaf, p.vote("b", "a"))), "its vote is stale")
}

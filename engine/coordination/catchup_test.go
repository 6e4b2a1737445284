package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// A state goes on with what the session did after it was saved: the ends of running steps, messages,
// and steps whose launches it lacks.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	used := llm.Usage{InputTokens: 10, ModelCalls: 1}
	p := start(team("a", "b", "c"))
	p.batch(p.answer("a"))
	saw := []Seen{{"a", 1}, {"b", 1}, {"c", 2}}
	p.state.CatchUp(Reopened{Run: "old"}, []Said{{Text: "be brief"}}, []Claim{
		{Agent: "b", Event: Answered{End: End{Launch: "l2", Step: 1, Usage: used}}},
		{Agent: "c", Event: Suspended{End: End{Launch: "l3", Step: 1, Usage: used}, Token: "old-l3"}},
		{Agent: "c", Resumes: "old-l3", Event: Answered{End: End{Launch: "l4", Step: 2, Usage: used}}},
		{Agent: "a", Seen: saw, Event: Voted{End: End{Launch: "l5", Step: 2, Usage: used}, Choice: Choice{Target: "c", Reason: "short"}, Seen: saw, Heard: 1}},
		{Agent: "b", Seen: saw, Event: Suspended{End: End{Launch: "l6", Step: 2}, Token: "new-l6"}},
		{Agent: "nobody", Event: Stopped{End: End{Launch: "l7"}}},
	})
	require.EqualValues(t, 4, p.state.Cost().ModelCalls, "not yet that of b, which is resumed")
	p.state.Step(Reopened{Run: "old"})
	commands := p.state.Drain()
	var recorded []string
	for _, r := range only[Record](commands) {
		recorded = append(recorded, r.Entry.Agent+" "+string(r.Entry.Action))
	}
	require.Equal(t, []string{" say", "b new_answer", "c new_answer", "a vote"}, recorded)
	var resumed Launch
	for _, l := range launches(commands) {
		if l.Agent == "b" {
			resumed = l
		}
	}
	require.Equal(t, "new-l6", resumed.ResumeFrom)
	require.True(t, resumed.Uncounted)
	require.Equal(t, 2, resumed.After)
	require.Equal(t, []Action{NewAnswer, Vote}, resumed.Offered)
	require.Equal(t, []Seen{{"a", 1}, {"b", 1}, {"c", 2}}, resumed.seenAnswers())
	require.Equal(t, map[string]int{"c": 1}, p.state.View().Votes)
}

// A session that had ended and that a later run had reopened goes on as that run did.
func TestCatchUp_ofAnEndedSession(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(c *Config) { c.OnAgentFailure = failureFail }, "a", "b"))
	p.batch(p.fail("a"), p.answer("b"))
	require.True(t, p.state.Done())
	p.state.CatchUp(Reopened{Run: "run"}, nil, nil)
	require.True(t, p.state.Done(), "nothing happened")
	p.state.CatchUp(Reopened{Run: "run"}, nil, []Claim{
		{Agent: "a", Resumes: tokenOf("l1"), Event: Answered{End: End{Launch: "l3", Step: 2}}},
	})
	require.False(t, p.state.Done())
	require.Equal(t, 2, p.state.agentOf("a").latestStep())
	require.Nil(t, p.state.agentOf("a").Error)
}

// A step of the finale whose launch the state lacks is adopted by the next one with its purpose.
func TestCatchUp_finale(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(c *Config) { c.Strategy = winnerPresent }, "a", "b"))
	vote := func(agent string, id LaunchID) Claim {
		seen := []Seen{{"a", 1}, {"b", 1}}
		return Claim{Agent: agent, Seen: seen, Event: Voted{End: End{Launch: id, Step: 2}, Choice: Choice{Target: "a"}, Seen: seen}}
	}
	p.state.CatchUp(Reopened{}, nil, []Claim{
		vote("a", p.last("a").ID), vote("b", p.last("b").ID),
		{Agent: "a", Purpose: Present, Event: Suspended{End: End{Launch: "l5", Step: 3}, Token: "run-l5"}},
	})
	l := theLaunch(t, p.state.Drain())
	require.Equal(t, Present, l.Purpose)
	require.Equal(t, "run-l5", l.ResumeFrom)
}

// caughtUp compares a random session with an earlier state of it that catches up.
func (s *session) caughtUp(t require.TestingT) {
	if s.saved == "" {
		return
	}
	other := decoded(t, s.saved)
	if s.state.attemptNumber() != other.attemptNumber() || s.state.Settled != nil || other.Done() {
		return // a finale has other entries
	}
	other.CatchUp(Reopened{}, s.said, s.claims)
	require.Equal(t, s.state.Messages, other.Messages)
	require.Equal(t, s.state.Accepted, other.Accepted)
	for i, a := range s.state.Agents {
		require.Equal(t, a.Answers, other.Agents[i].Answers)
		if a.Ballot != nil {
			require.Equal(t, a.Ballot.Step, other.Agents[i].Ballot.Step)
			require.Equal(t, a.Ballot.Target, other.Agents[i].Ballot.Target)
		}
	}
}

// remember collects an accepted event after a state was saved.
func (s *session) remember(e Event) {
	switch e := e.(type) {
	case Said:
		s.said = append(s.said, e)
	case Reopened:
		s.said = append(s.said, Said{Agent: e.Agent, Text: e.Text})
	case ending:
		s.claims = append(s.claims, Claim{Agent: s.launches[e.endOfStep().Launch].Agent, Event: e})
	}
}

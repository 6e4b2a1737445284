package coordination_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// book is the record of a session in the form of a directory of steps.
type book struct{ pages []c.OnRecord }

func newBook(ids ...string) *book {
	b := &book{}
	for _, id := range ids {
		b.pages = append(b.pages, c.OnRecord{Agent: id})
	}
	return b
}

// take records the end of a step.
func (b *book) take(event c.Event, agent string) {
	for i := range b.pages {
		p := &b.pages[i]
		if p.Agent != agent {
			continue
		}
		p.Steps++
		switch e := event.(type) {
		case c.Answered:
			p.Step, p.Answers, p.Vote = e.Step, append(p.Answers, e.Step), nil
		case c.Voted:
			p.Step, p.Vote = e.Step, &e
		}
	}
}

// A recalled session equals the session that was played: agents, votes and the next
// commands.
func TestRecallIsTheSession(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 7))
		ids := []string{"c", "a", "b", "d"}[:1+chance.IntN(4)]
		config := c.Config{
			Agents: ids, OnSplit: c.SplitFail, MaxStepsPerAgent: 4 + chance.IntN(8), AnswersPerAgent: chance.IntN(4), AnswersGlobal: chance.IntN(9),
		}
		p, b := newPlayer(config), newBook(ids...)
		for round := 0; !p.state.Done() && round < 20; round++ {
			recalled := c.Recall(config, b.pages, nil)
			require.Equal(t, p.state.Tally(), recalled.Tally(), "seed %d", seed)
			live, again := p.state.View(), recalled.View()
			for i := range live.Agents {
				require.Equal(t, live.Agents[i], again.Agents[i], "seed %d", seed)
			}
			commands := p.drain()
			require.Equal(t, gist(commands), gist(recalled.Drain()), "seed %d", seed)
			for _, id := range launched(commands) {
				event := p.vote(id, ids[chance.IntN(len(ids))])
				if chance.IntN(3) == 0 || len(p.last(id).Shown) == 0 {
					event = p.answer(id)
				}
				if answered, ok := event.(c.Answered); ok && !may(p.last(id), c.NewAnswer) {
					event = c.Voted{End: c.End{Launch: answered.Launch, Step: answered.Step}, Target: p.last(id).Shown[0].Agent, Seen: answered.Seen}
				}
				if vote, ok := event.(c.Voted); ok && !showsTo(p.last(id), vote.Target) {
					vote.Target = p.last(id).Shown[0].Agent
					event = vote
				}
				p.step(event)
				b.take(event, id)
			}
		}
	}
}

func may(l c.Launch, action c.Action) bool {
	for _, a := range l.Offered {
		if a == action {
			return true
		}
	}
	return false
}

func showsTo(l c.Launch, agent string) bool {
	for _, s := range l.Shown {
		if s.Agent == agent {
			return true
		}
	}
	return false
}

// gist returns the parts of commands that follow from the protocol alone.
func gist(commands []c.Command) []string {
	var lines []string
	for _, command := range commands {
		switch d := command.(type) {
		case c.Launch:
			lines = append(lines, fmt.Sprintf("launch %s of %d after %d shown %v offered %v", d.Agent, d.Number, d.After, d.Shown, d.Offered))
		case c.Done:
			lines = append(lines, fmt.Sprintf("done %s %s", d.Decision.Status, d.Decision.Cause))
		default:
		}
	}
	return lines
}

func TestRecallIgnoresUnknownAgents(t *testing.T) {
	t.Parallel()
	s := c.Recall(c.Config{Agents: []string{"a", "b"}}, []c.OnRecord{
		{Agent: "stranger", Step: 1, Steps: 1, Answers: []int{1}},
		{Agent: "a", Step: 3, Steps: 1, Vote: &c.Voted{End: c.End{Step: 3}, Target: "stranger", Seen: []c.Seen{{Agent: "stranger", Step: 1}}}},
	}, nil)
	v := s.View()
	require.EqualValues(t, "no_action", v.Agents[0].Status)
	require.Equal(t, 3, v.Agents[0].Step)
	require.EqualValues(t, "no_action", v.Agents[1].Status)
	require.Equal(t, []string{"a", "b"}, launched(s.Drain()))
}

// Seen answers are bounded by the record, and earlier attempts count for labels only.
func TestRecallBounds(t *testing.T) {
	t.Parallel()
	config := c.Config{Agents: []string{"a", "b"}}
	s := c.Recall(config, []c.OnRecord{
		{Agent: "a", Step: 4, Steps: 2, Answers: []int{4, 1, 4}, Base: 1},
		{Agent: "b", Step: 2, Steps: 2, Answers: []int{1}, Base: 7, Vote: &c.Voted{End: c.End{Step: 2}, Target: "a", TargetLabel: "agent9.9", Seen: []c.Seen{{Agent: "a", Step: 9}}}},
	}, nil)
	v := s.View()
	require.Equal(t, "agent1.2", v.Agents[0].LatestLabel)
	require.Empty(t, v.Agents[1].LatestLabel)
	require.Equal(t, &c.VoteView{Target: "a", TargetLabel: "agent1.2", Step: 2}, v.Agents[1].Vote)
}

func TestRecallStopsAndMessages(t *testing.T) {
	t.Parallel()
	said := []c.Message{{Number: 1}, {Number: 2, Agent: "b"}}
	s := c.Recall(c.Config{Agents: []string{"a", "b"}, Mode: c.Decomposition}, []c.OnRecord{
		{Agent: "a", Step: 1, Steps: 1, Stop: &c.Stopped{End: c.End{Step: 1}, Status: c.Blocked, Summary: "stuck", Heard: 1}},
		{Agent: "b", Step: 1, Steps: 1, Stop: &c.Stopped{End: c.End{Step: 1}, Heard: 1}},
	}, said)
	v := s.View()
	require.Equal(t, &c.StopView{Status: c.Blocked, Summary: "stuck", Step: 1}, v.Agents[0].Stop)
	require.Equal(t, &c.StopView{Status: c.Complete, Step: 1, Stale: true}, v.Agents[1].Stop)
	require.Equal(t, []string{"b"}, launched(s.Drain()))
}

func TestRecallOfARunningStep(t *testing.T) {
	t.Parallel()
	s := c.Recall(c.Config{Agents: []string{"a", "b"}}, []c.OnRecord{{Agent: "a", Step: 1, Running: true}}, nil)
	require.True(t, s.View().Agents[0].Running)
	require.Empty(t, launched(s.Drain()))
	require.False(t, s.Done())
}

func TestLaunchOf(t *testing.T) {
	t.Parallel()
	config := c.Config{Agents: []string{"b", "a"}, AnswersPerAgent: 1}
	record := []c.OnRecord{{Agent: "b", Step: 5, Steps: 2, Answers: []int{2}}}
	l, ok := c.Recall(config, record, nil).LaunchOf("b")
	require.True(t, ok)
	require.Equal(t, c.Launch{
		ID: "l1", Agent: "b", Number: 2, Round: 3, After: 5, Answers: 1, Given: 1,
		Shown: []c.Shown{{Agent: "b", Number: 2, Label: "agent2.1", Step: 2}}, Offered: []c.Action{c.Vote},
	}, l)
	l, ok = c.Recall(config, record, nil).LaunchOf("a")
	require.True(t, ok)
	require.Equal(t, []c.Action{c.NewAnswer, c.Vote}, l.Offered)
	_, ok = c.Recall(config, record, nil).LaunchOf("c")
	require.False(t, ok)
	config.SkipVoting = true
	_, ok = c.Recall(config, record, nil).LaunchOf("b")
	require.False(t, ok)
}

// Recorded steps and usage of all agents count.
func TestLaunchOfWithinLimits(t *testing.T) {
	t.Parallel()
	record := []c.OnRecord{{Agent: "b", Step: 5, Steps: 2, Answers: []int{2}, Usage: llm.Usage{InputTokens: 80, OutputTokens: 10, ModelCalls: 1}}}
	launch := func(agent string, config c.Config) (c.Launch, bool) {
		config.Agents = []string{"a", "b"}
		return c.Recall(config, record, nil).LaunchOf(agent)
	}
	_, ok := launch("b", c.Config{MaxStepsPerAgent: 2})
	require.False(t, ok)
	_, ok = launch("a", c.Config{MaxStepsPerAgent: 2})
	require.True(t, ok)
	l, ok := launch("a", c.Config{Budget: c.Allowance{Tokens: 100}})
	require.True(t, ok)
	require.Equal(t, c.Allowance{Tokens: 10}, l.Allowance)
	_, ok = launch("a", c.Config{Budget: c.Allowance{Tokens: 90}})
	require.False(t, ok)
}

package coordination

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// book is the record of a session as a directory of steps contains it.
type book struct{ pages []OnRecord }

func newBook(ids ...string) *book {
	b := &book{}
	for _, id := range ids {
		b.pages = append(b.pages, OnRecord{Agent: id})
	}
	return b
}

// take records the end of a step.
func (b *book) take(event Event, agent string) {
	for i := range b.pages {
		p := &b.pages[i]
		if p.Agent != agent {
			continue
		}
		p.Steps++
		switch e := event.(type) {
		case Answered:
			p.Step, p.Answers, p.Vote = e.Step, append(p.Answers, e.Step), nil
		case Voted:
			p.Step, p.Vote = e.Step, &e
		}
	}
}

// A recalled session equals the session that was played: its agents, its votes and its next
// commands.
func TestRecallIsTheSession(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 7))
		ids := []string{"c", "a", "b", "d"}[:1+chance.IntN(4)]
		config := Config{
			Agents: ids, OnSplit: SplitFail, MaxStepsPerAgent: 4 + chance.IntN(8), AnswersPerAgent: chance.IntN(4), AnswersGlobal: chance.IntN(9),
		}
		p, b := newPlayer(config), newBook(ids...)
		for round := 0; !p.state.Done() && round < 20; round++ {
			recalled := Recall(config, b.pages, nil)
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
				if answered, ok := event.(Answered); ok && !may(p.last(id), NewAnswer) {
					event = Voted{End: End{Launch: answered.Launch, Step: answered.Step}, Choice: Choice{Target: p.last(id).Shown[0].Agent}, Seen: answered.Seen}
				}
				if vote, ok := event.(Voted); ok && !showsTo(p.last(id), vote.Target) {
					vote.Target = p.last(id).Shown[0].Agent
					event = vote
				}
				p.step(event)
				b.take(event, id)
			}
		}
	}
}

func may(l Launch, action Action) bool {
	for _, a := range l.Offered {
		if a == action {
			return true
		}
	}
	return false
}

func showsTo(l Launch, agent string) bool {
	for _, s := range l.Shown {
		if s.Agent == agent {
			return true
		}
	}
	return false
}

// gist returns the parts of commands that depend only on the protocol.
func gist(commands []Command) []string {
	var lines []string
	for _, command := range commands {
		switch d := command.(type) {
		case Launch:
			for i := range d.Shown {
				d.Shown[i].Seq = 0 // no record has the order of answers
			}
			lines = append(lines, fmt.Sprintf("launch %s of %d after %d shown %v offered %v", d.Agent, d.Number, d.After, d.Shown, d.Offered))
		case Done:
			lines = append(lines, fmt.Sprintf("done %s %s", d.Decision.Status, d.Decision.Cause))
		default:
		}
	}
	return lines
}

func TestRecallIgnoresUnknownAgents(t *testing.T) {
	t.Parallel()
	s := Recall(Config{Agents: []string{"a", "b"}}, []OnRecord{
		{Agent: "stranger", Step: 1, Steps: 1, Answers: []int{1}},
		{Agent: "a", Step: 3, Steps: 1, Vote: &Voted{End: End{Step: 3}, Choice: Choice{Target: "stranger"}, Seen: []Seen{{Agent: "stranger", Step: 1}}}},
	}, nil)
	v := s.View()
	require.Equal(t, "no_action", v.Agents[0].Status)
	require.Equal(t, 3, v.Agents[0].Step)
	require.Equal(t, "no_action", v.Agents[1].Status)
	require.Equal(t, []string{"a", "b"}, launched(s.Drain()))
}

// The record bounds seen answers, and earlier attempts only count for labels.
func TestRecallBounds(t *testing.T) {
	t.Parallel()
	config := Config{Agents: []string{"a", "b"}}
	s := Recall(config, []OnRecord{
		{Agent: "a", Step: 4, Steps: 2, Answers: []int{4, 1, 4}, Base: 1},
		{Agent: "b", Step: 2, Steps: 2, Answers: []int{1}, Base: 7, Vote: &Voted{End: End{Step: 2}, Choice: Choice{Target: "a", TargetLabel: "agent9.9"}, Seen: []Seen{{Agent: "a", Step: 9}}}},
	}, nil)
	v := s.View()
	require.Equal(t, "agent1.2", v.Agents[0].LatestLabel)
	require.Empty(t, v.Agents[1].LatestLabel)
	require.Equal(t, &VoteView{Choice: Choice{Target: "a", TargetLabel: "agent1.2"}, Step: 2}, v.Agents[1].Vote)
}

func TestRecallStopsAndMessages(t *testing.T) {
	t.Parallel()
	said := []Message{{Number: 1}, {Number: 2, Agent: "b"}}
	s := Recall(Config{Agents: []string{"a", "b"}, Mode: Decomposition}, []OnRecord{
		{Agent: "a", Step: 1, Steps: 1, Stop: &Stopped{End: End{Step: 1}, Status: Blocked, Summary: "stuck", Heard: 1}},
		{Agent: "b", Step: 1, Steps: 1, Stop: &Stopped{End: End{Step: 1}, Heard: 1}},
	}, said)
	v := s.View()
	require.Equal(t, &StopView{Status: Blocked, Summary: "stuck", Step: 1}, v.Agents[0].Stop)
	require.Equal(t, &StopView{Status: Complete, Step: 1, Stale: true}, v.Agents[1].Stop)
	require.Equal(t, []string{"b"}, launched(s.Drain()))
}

func TestRecallOfARunningStep(t *testing.T) {
	t.Parallel()
	s := Recall(Config{Agents: []string{"a", "b"}}, []OnRecord{{Agent: "a", Step: 1, Running: true}}, nil)
	require.True(t, s.View().Agents[0].Running)
	require.Empty(t, launched(s.Drain()))
	require.False(t, s.Done())
}

func TestLaunchOf(t *testing.T) {
	t.Parallel()
	config := Config{Agents: []string{"b", "a"}, AnswersPerAgent: 1}
	record := []OnRecord{{Agent: "b", Step: 5, Steps: 2, Answers: []int{2}}}
	l, ok := Recall(config, record, nil).LaunchOf("b")
	require.True(t, ok)
	require.Equal(t, Launch{
		ID: "l1", Agent: "b", Number: 2, Round: 3, After: 5, Answers: 1, Given: 1,
		Shown: []Shown{{Agent: "b", Number: 2, Label: "agent2.1", Step: 2}}, Offered: []Action{Vote},
	}, l)
	l, ok = Recall(config, record, nil).LaunchOf("a")
	require.True(t, ok)
	require.Equal(t, []Action{NewAnswer, Vote}, l.Offered)
	_, ok = Recall(config, record, nil).LaunchOf("c")
	require.False(t, ok)
	config.SkipVoting = true
	_, ok = Recall(config, record, nil).LaunchOf("b")
	require.False(t, ok)
}

// Recorded steps and the usage of all agents are counted.
func TestLaunchOfWithinLimits(t *testing.T) {
	t.Parallel()
	record := []OnRecord{{Agent: "b", Step: 5, Steps: 2, Answers: []int{2}, Usage: llm.Usage{InputTokens: 80, OutputTokens: 10, ModelCalls: 1}}}
	launch := func(agent string, config Config) (Launch, bool) {
		config.Agents = []string{"a", "b"}
		return Recall(config, record, nil).LaunchOf(agent)
	}
	_, ok := launch("b", Config{MaxStepsPerAgent: 2})
	require.False(t, ok)
	_, ok = launch("a", Config{MaxStepsPerAgent: 2})
	require.True(t, ok)
	l, ok := launch("a", Config{Budget: Allowance{Tokens: 100}})
	require.True(t, ok)
	require.Equal(t, Allowance{Tokens: 10}, l.Allowance)
	_, ok = launch("a", Config{Budget: Allowance{Tokens: 90}})
	require.False(t, ok)
}

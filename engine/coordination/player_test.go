package coordination_test

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// player drives a State as a driver would, keeping what it launched and what
// went on the ledger.
type player struct {
	state    *c.State
	launches map[c.LaunchID]c.Launch
	latest   map[string]c.LaunchID // by agent
	ledger   []c.Accepted
	noted    int // timeline entries already printed
}

func newPlayer(config c.Config) *player {
	return &player{state: c.New(config), launches: map[c.LaunchID]c.Launch{}, latest: map[string]c.LaunchID{}}
}

// start begins a session and launches its first wave.
func start(config c.Config) *player {
	p := newPlayer(config)
	p.drain()
	return p
}

func (p *player) step(events ...c.Event) {
	for _, e := range events {
		p.state.Step(e)
	}
}

// batch steps events together and drains once.
func (p *player) batch(events ...c.Event) []c.Command {
	p.step(events...)
	return p.drain()
}

func (p *player) drain() []c.Command {
	commands := p.state.Drain()
	for _, command := range commands {
		switch d := command.(type) {
		case c.Launch:
			p.launches[d.ID] = d
			p.latest[d.Agent] = d.ID
		case c.Record:
			p.ledger = append(p.ledger, d.Entry)
		case c.Cancel, c.Done:
		}
	}
	return commands
}

// launchOf finds the latest launch of an agent; anything else is taken for a
// launch ID.
func (p *player) launchOf(who string) c.LaunchID {
	if id, found := p.latest[who]; found {
		return id
	}
	return c.LaunchID(who)
}

func (p *player) nextStep(launch c.LaunchID) int { return p.launches[launch].After + 1 }

func (p *player) sees(launch c.LaunchID) []c.Seen {
	var seen []c.Seen
	for _, shown := range p.launches[launch].Shown {
		seen = append(seen, c.Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// answer and vote are the honest ends of an agent's latest launch.
func (p *player) answer(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Answered{Launch: id, Step: p.nextStep(id), Seen: p.sees(id)}
}

func (p *player) vote(agent, target string) c.Event {
	id := p.launchOf(agent)
	return c.Voted{Launch: id, Step: p.nextStep(id), Target: target, Seen: p.sees(id)}
}

func (p *player) fail(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Failed{Launch: id, Step: p.nextStep(id), Cause: c.Failure{Type: "overloaded", Message: "the model was overloaded"}}
}

func launches(commands []c.Command) []c.Launch { return only[c.Launch](commands) }

// only is the commands of one type, in order.
func only[T c.Command](commands []c.Command) []T {
	var some []T
	for _, command := range commands {
		if d, ok := command.(T); ok {
			some = append(some, d)
		}
	}
	return some
}

func marshal(t require.TestingT, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

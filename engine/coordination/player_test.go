package coordination_test

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// player drives a State and keeps its launches, rings and records.
type player struct {
	state    *c.State
	launches map[c.LaunchID]c.Launch
	latest   map[string]c.LaunchID // by agent
	bell     c.Ring                // as it was rung last
	ledger   []c.Accepted
	noted    int // timeline entries already printed
}

// newPlayer begins a session under the present protocol.
func newPlayer(config c.Config) *player { return playerOf(c.New(config)) }

func playerOf(state *c.State) *player {
	return &player{state: state, launches: map[c.LaunchID]c.Launch{}, latest: map[string]c.LaunchID{}}
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
		case c.Ring:
			p.bell = d
		case c.Record:
			p.ledger = append(p.ledger, d.Entry)
		case c.Cancel, c.Done:
		}
	}
	return commands
}

// launchOf returns the latest launch of an agent; any other text is a launch ID.
func (p *player) launchOf(who string) c.LaunchID {
	if id, found := p.latest[who]; found {
		return id
	}
	return c.LaunchID(who)
}

// last returns the latest launch of an agent.
func (p *player) last(agent string) c.Launch { return p.launches[p.latest[agent]] }

func (p *player) nextStep(launch c.LaunchID) int { return p.launches[launch].After + 1 }

func (p *player) sees(launch c.LaunchID) []c.Seen {
	var seen []c.Seen
	for _, shown := range p.launches[launch].Shown {
		seen = append(seen, c.Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// hears returns the number of the last human message of a launch.
func (p *player) hears(launch c.LaunchID) int {
	last := 0
	for _, m := range p.launches[launch].Messages {
		last = m.Number
	}
	return last
}

// told returns the answers and messages known to a step that has read the bell.
func (p *player) told(launch c.LaunchID) (seen []c.Seen, heard int) {
	seen, heard = p.sees(launch), p.hears(launch)
	for _, shown := range p.bell.Answers {
		seen = append(seen, c.Seen{Agent: shown.Agent, Step: shown.Step})
	}
	for _, m := range p.bell.Messages {
		heard = max(heard, m.Number)
	}
	return seen, heard
}

// The following methods end an agent's latest launch honestly.

func (p *player) answer(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Answered{End: c.End{Launch: id, Step: p.nextStep(id)}, Seen: p.sees(id), Heard: p.hears(id)}
}

func (p *player) vote(agent, target string) c.Event {
	id := p.launchOf(agent)
	return c.Voted{End: c.End{Launch: id, Step: p.nextStep(id)}, Target: target, Seen: p.sees(id), Heard: p.hears(id)}
}

func (p *player) stop(agent string, status c.StopStatus) c.Event {
	id := p.launchOf(agent)
	return c.Stopped{
		End: c.End{Launch: id, Step: p.nextStep(id)}, Status: status, Summary: agent + "'s part", Seen: p.sees(id), Heard: p.hears(id),
	}
}

func (p *player) evaluate(agent string, again bool) c.Event {
	id := p.launchOf(agent)
	return c.Evaluated{End: c.End{Launch: id, Step: p.nextStep(id)}, Again: again, Reason: "the numbers are missing"}
}

func (p *player) fail(agent string) c.Event {
	id := p.launchOf(agent)
	cause := c.Failure{Type: "overloaded", Message: "the model was overloaded"}
	return c.Failed{End: c.End{Launch: id, Step: p.nextStep(id)}, Cause: cause, Token: tokenOf(id)}
}

func (p *player) suspend(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Suspended{End: c.End{Launch: id, Step: p.nextStep(id)}, Token: tokenOf(id)}
}

func (p *player) restart(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Restarted{End: c.End{Launch: id, Step: p.nextStep(id)}}
}

func (p *player) exhaust(agent string) c.Event {
	id := p.launchOf(agent)
	return c.Exhausted{End: c.End{Launch: id, Step: p.nextStep(id)}}
}

// tokenOf returns the execution token of a launch.
func tokenOf(launch c.LaunchID) string { return "run-" + string(launch) }

func launches(commands []c.Command) []c.Launch { return only[c.Launch](commands) }

// only returns the commands of one type, in order.
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

// spending returns an event with a usage in tokens.
func spending(e c.Event, tokens int64) c.Event {
	used := llm.Usage{InputTokens: tokens, ModelCalls: 1}
	switch e := e.(type) {
	case c.Answered:
		e.Usage = used
		return e
	case c.Voted:
		e.Usage = used
		return e
	case c.Exhausted:
		e.Usage = used
		return e
	case c.Suspended:
		e.Usage = used
		return e
	}
	return e
}

// latestLaunched returns the agent of the newest launch with that purpose.
func (p *player) latestLaunched(purpose c.Purpose) string {
	agent := ""
	for _, id := range p.state.Config.Agents {
		if p.last(id).Purpose == purpose {
			agent = id
		}
	}
	return agent
}

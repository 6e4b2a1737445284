package coordination

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// player drives a State and records its launches, rings and records.
type player struct {
	state    *State
	launches map[LaunchID]Launch
	latest   map[string]LaunchID // by agent
	bell     Ring                // as it was rung last
	ledger   []Accepted
	noted    int // timeline entries already printed
}

// newPlayer starts a session with the current protocol.
func newPlayer(config Config) *player { return playerOf(New(config)) }

func playerOf(state *State) *player {
	return &player{state: state, launches: map[LaunchID]Launch{}, latest: map[string]LaunchID{}}
}

// start starts a session and launches its first wave.
func start(config Config) *player {
	p := newPlayer(config)
	p.drain()
	return p
}

func (p *player) step(events ...Event) {
	for _, e := range events {
		p.state.Step(e)
	}
}

// batch steps events together and drains once.
func (p *player) batch(events ...Event) []Command {
	p.step(events...)
	return p.drain()
}

func (p *player) drain() []Command {
	commands := p.state.Drain()
	for _, command := range commands {
		switch d := command.(type) {
		case Launch:
			p.launches[d.ID] = d
			p.latest[d.Agent] = d.ID
		case Ring:
			p.bell = d
		case Record:
			p.ledger = append(p.ledger, d.Entry)
		case Cancel, Done:
		}
	}
	return commands
}

// launchOf returns the latest launch of an agent. If who is not an agent, it is a launch ID and
// returned unchanged.
func (p *player) launchOf(who string) LaunchID {
	if id, found := p.latest[who]; found {
		return id
	}
	return LaunchID(who)
}

// last returns the latest launch of an agent.
func (p *player) last(agent string) Launch { return p.launches[p.latest[agent]] }

func (p *player) nextStep(launch LaunchID) int { return p.launches[launch].After + 1 }

func (p *player) shownTo(launch LaunchID) []Seen {
	var seen []Seen
	for _, shown := range p.launches[launch].Shown {
		seen = append(seen, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// lastMessage returns the number of the last human message of a launch.
func (p *player) lastMessage(launch LaunchID) int {
	last := 0
	for _, m := range p.launches[launch].Messages {
		last = m.Number
	}
	return last
}

// witnessed returns the answers and messages shown to a step that has read the bell.
func (p *player) witnessed(launch LaunchID) (seen []Seen, heard int) {
	seen, heard = p.shownTo(launch), p.lastMessage(launch)
	for _, shown := range p.bell.Answers {
		seen = append(seen, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	for _, m := range p.bell.Messages {
		heard = max(heard, m.Number)
	}
	return seen, heard
}

// The following methods end an agent's latest launch as a correct worker would.

func (p *player) answer(agent string) Event {
	id := p.launchOf(agent)
	return Answered{End: End{Launch: id, Step: p.nextStep(id)}, Seen: p.shownTo(id), Heard: p.lastMessage(id)}
}

func (p *player) vote(agent, target string) Event {
	id := p.launchOf(agent)
	return Voted{End: End{Launch: id, Step: p.nextStep(id)}, Choice: Choice{Target: target}, Seen: p.shownTo(id), Heard: p.lastMessage(id)}
}

func (p *player) stop(agent string, status StopStatus) Event {
	id := p.launchOf(agent)
	return Stopped{
		End: End{Launch: id, Step: p.nextStep(id)}, Status: status, Summary: agent + "'s part", Seen: p.shownTo(id), Heard: p.lastMessage(id),
	}
}

func (p *player) evaluate(agent string, again bool) Event {
	id := p.launchOf(agent)
	return Evaluated{End: End{Launch: id, Step: p.nextStep(id)}, Again: again, Reason: "the numbers are missing"}
}

func (p *player) fail(agent string) Event {
	id := p.launchOf(agent)
	cause := Failure{Type: "overloaded", Message: "the model was overloaded"}
	return Failed{End: End{Launch: id, Step: p.nextStep(id)}, Cause: cause, Token: tokenOf(id)}
}

func (p *player) suspend(agent string) Event {
	id := p.launchOf(agent)
	return Suspended{End: End{Launch: id, Step: p.nextStep(id)}, Token: tokenOf(id)}
}

func (p *player) restart(agent string) Event {
	id := p.launchOf(agent)
	return Restarted{End: End{Launch: id, Step: p.nextStep(id)}}
}

func (p *player) exhaust(agent string) Event {
	id := p.launchOf(agent)
	return Exhausted{End: End{Launch: id, Step: p.nextStep(id)}}
}

// tokenOf returns the execution token of a launch.
func tokenOf(launch LaunchID) string { return "run-" + string(launch) }

func launches(commands []Command) []Launch { return only[Launch](commands) }

// only returns the commands of one type, in order.
func only[T Command](commands []Command) []T {
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

// spending adds a usage in tokens to an event.
func spending(e Event, tokens int64) Event {
	used := llm.Usage{InputTokens: tokens, ModelCalls: 1}
	switch e := e.(type) {
	case Answered:
		e.Usage = used
		return e
	case Voted:
		e.Usage = used
		return e
	case Exhausted:
		e.Usage = used
		return e
	case Suspended:
		e.Usage = used
		return e
	}
	return e
}

// latestLaunched returns the agent of the newest launch with that purpose.
func (p *player) latestLaunched(purpose Purpose) string {
	agent := ""
	for _, id := range p.state.Config.Agents {
		if p.last(id).Purpose == purpose {
			agent = id
		}
	}
	return agent
}

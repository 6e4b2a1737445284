package coordination

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestNewFillsDefaults(t *testing.T) {
	t.Parallel()
	negative := -1
	s := New(Config{
		Agents: []string{"b", "a", "b"}, OnSplit: "coin", OnAgentFailure: "despair", MaxRevotes: -1,
		Mode: "duel", Pacing: "haste", Updates: "shout", UpdatesPerStep: -1, LeadCap: &negative, AnswersPerAgent: -1,
		AnswersGlobal: -1, Strategy: "none", Presenter: "x", MaxRestarts: -1, Budget: Allowance{USD: -1, Tokens: -1},
	})
	none := 0
	require.Equal(t, Config{
		Agents: []string{"b", "a"}, OnSplit: splitRevote, OnAgentFailure: "continue", MaxStepsPerAgent: 12,
		Mode: voting, Pacing: "rounds", Strategy: winnerReuse, LeadCap: &none,
	}, s.Config)
	require.Equal(t, Protocol, s.Protocol)
	require.Len(t, s.Agents, 2)
}

// The view has exactly the keys of the state JSON in the public contract.
func TestViewJSON(t *testing.T) {
	t.Parallel()
	usd := 0.5
	p := start(team("b", "a"))
	require.JSONEq(t, `{"phase":"initial_answers","paused":false,"parked":null,"round":1,"agents":[
		{"id":"b","number":2,"status":"no_action","running":true,"doing":null,"step":0,"answers":0,"latest_label":"","vote":null,"error":null,
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0,"model_calls_repeated":0}},
		{"id":"a","number":1,"status":"no_action","running":true,"doing":null,"step":0,"answers":0,"latest_label":"","vote":null,"error":null,
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0,"model_calls_repeated":0}}],
		"votes":{},"winner":"","events":1,"attempt":1,"messages":0,"superseded_votes":0,"completion":0,
		"cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0,"model_calls_repeated":0}}`,
		marshal(t, p.state.View()))
	p.batch(p.answer("a"), p.answer("b"), Said{Text: "well"})
	vote := p.vote("a", "b").(Voted)
	vote.Reason, vote.Usage = "better", llm.Usage{InputTokens: 3, TotalUSD: &usd, ModelCalls: 1}
	p.batch(vote, p.fail("b"))
	require.JSONEq(t, `{"phase":"done","paused":false,"parked":null,"round":2,"agents":[
		{"id":"b","number":2,"status":"failed","running":false,"doing":null,"step":2,"answers":1,"latest_label":"agent2.1","vote":null,
		 "error":{"type":"overloaded","message":"the model was overloaded"},
		 "cost":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":null,"model_calls":0,"model_calls_repeated":0}},
		{"id":"a","number":1,"status":"voted","running":false,"doing":null,"step":2,"answers":1,"latest_label":"agent1.1","error":null,
		 "vote":{"target":"b","target_label":"agent2.1","step":2,"stale":false,"reason":"better"},
		 "cost":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":0.5,"model_calls":1,"model_calls_repeated":0}}],
		"votes":{"b":1},"winner":"b","events":8,"attempt":1,"messages":1,"superseded_votes":0,"completion":100,
		"cost":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":0,"reasoning_tokens":0,"total_usd":0.5,"model_calls":1,"model_calls_repeated":0}}`,
		marshal(t, p.state.View()))
}

// The leader is the answer that a person's request to decide now would choose.
func TestView_leader(t *testing.T) {
	t.Parallel()
	moves := []func(p *player) Event{
		func(p *player) Event { return p.answer("a") }, func(p *player) Event { return p.answer("b") }, func(p *player) Event { return p.answer("c") },
		func(p *player) Event { return p.vote("c", "b") }, func(p *player) Event { return p.answer("a") }, func(p *player) Event { return p.vote("b", "a") },
	}
	want := []string{"", "agent1.1", "agent2.1", "agent3.1", "agent2.1", "agent2.1", "agent2.1"}
	for played := range len(moves) + 1 {
		p := start(team("a", "b", "c"))
		for _, move := range moves[:played] {
			p.batch(move(p))
		}
		leader := p.state.View().Leader
		require.Equal(t, want[played], leader, played)
		p.batch(Finish{})
		require.Equal(t, leader, p.state.Decision().WinnerLabel, played)
		require.Empty(t, p.state.View().Leader, "nothing leads at the end")
	}
}

// The phases of a session, in order. When a team begins again, its phase is first answers again.
func TestViewPhases(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *Config) { o.Strategy, o.MaxRestarts = winnerPresent, 1 }, "a"))
	phase := func() Phase { return p.state.View().Phase }
	require.Equal(t, PhasePreparing, phase())
	p.drain()
	require.Equal(t, PhaseInitialAnswers, phase())
	p.batch(p.exhaust("a"))
	require.Equal(t, PhaseInitialAnswers, phase(), "still nothing to coordinate")
	p.batch(p.answer("a"))
	require.Equal(t, PhaseCoordinating, phase())
	require.Equal(t, "answered", p.state.View().Agents[0].Status)
	p.batch(p.vote("a", "a"))
	require.Equal(t, PhasePresenting, phase())
	require.Equal(t, Present, p.state.View().Agents[0].Purpose)
	require.True(t, p.state.View().Agents[0].Running)
	p.batch(p.answer("a"))
	require.Equal(t, PhasePresenting, phase())
	require.Equal(t, Evaluate, p.state.View().Agents[0].Purpose)
	require.Empty(t, p.state.View().Winner, "nothing is won before it is done")
	p.batch(p.evaluate("a", true))
	require.Equal(t, PhaseInitialAnswers, phase())
	p.batch(p.answer("a"))
	require.Equal(t, PhaseCoordinating, phase())
	p.batch(p.vote("a", "a"))
	p.batch(p.fail("a"))
	require.Equal(t, PhaseDone, phase())
	require.Empty(t, p.state.View().Agents[0].Purpose)
	require.Equal(t, "a", p.state.View().Winner)
}

// A paused session keeps its phase.
func TestViewPaused(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("a"))
	p.batch(Pause{})
	require.Equal(t, PhasePreparing, p.state.View().Phase, "nothing was launched yet")
	require.True(t, p.state.View().Paused)
	p.batch(Resume{})
	require.Equal(t, PhaseInitialAnswers, p.state.View().Phase)
	require.False(t, p.state.View().Paused)
	p.batch(Pause{})
	require.True(t, p.state.View().Agents[0].Running, "until its step has ended")
	p.batch(p.suspend("a"))
	require.False(t, p.state.View().Agents[0].Running)
}

// While a session waits, agents in an outage show the wait as their activity.
func TestViewWaiting(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	doing := func() (all []*Doing) {
		for _, a := range p.state.View().Agents {
			all = append(all, a.Doing)
		}
		return all
	}
	away := p.fail("a").(Failed)
	away.Outage = Interrupted
	p.batch(away)
	require.Equal(t, []*Doing{nil, nil}, doing(), "b is at work")
	p.batch(p.fail("b"))
	require.Equal(t, []*Doing{{Kind: ModelAway, What: away.Cause.Message}, nil}, doing())
	require.NotEmpty(t, away.Cause.Message)
	p.batch(Waited{})
	require.Equal(t, []*Doing{nil, nil}, doing())
}

// parked contains every failed agent and the remedies; otherwise it is null.
func TestViewParked(t *testing.T) {
	t.Parallel()
	p := start(teamWith(parking, "b", "a", "c"))
	require.Nil(t, p.state.View().Parked)
	p.batch(Failed{End: End{Launch: "l2"}, Cause: Failure{Type: "quota", Message: strings.Repeat("x", 400)}})
	p.batch(p.fail("b"))
	require.Equal(t, "retry, finish or cancel: b failed, overloaded: the model was overloaded; a failed, quota: "+
		strings.Repeat("x", 280), *p.state.View().Parked, "in configured order, cut")
	p.batch(Retry{Agent: "b"})
	require.True(t, strings.HasPrefix(*p.state.View().Parked, "retry, finish or cancel: a failed, quota: x"))
	p.batch(Retry{})
	require.Nil(t, p.state.View().Parked)

	p = start(team("a", "b"))
	p.batch(p.fail("a"))
	require.Nil(t, p.state.View().Parked, "the others continue")
}

// After the decision no agent is shown as running, even before cancelled steps end.
func TestViewOver(t *testing.T) {
	t.Parallel()
	p, _ := agreed(teamWith(func(o *Config) { o.Strategy = winnerPresent }, "a", "b"))
	p.batch(Pause{})
	p.batch(Finish{})
	view := p.state.View()
	require.Equal(t, PhaseDone, view.Phase)
	require.False(t, view.Paused)
	require.False(t, view.Agents[0].Running)
	require.Empty(t, view.Agents[0].Purpose)
}

// A stop is shown like a vote, as fresh or stale. Seed 001: "decomposition stop stores stop
// summary/status".
func TestViewStop(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "a", "b"))
	stop := p.stop("a", Blocked).(Stopped)
	stop.Summary = strings.Repeat("é", 300)
	p.batch(stop)
	a := p.state.View().Agents[0]
	require.Equal(t, "stopped", a.Status)
	require.Equal(t, StopView{Status: Blocked, Summary: strings.Repeat("é", 280), Step: 2}, *a.Stop)
	require.Nil(t, a.Vote)
	require.JSONEq(t, `{"status":"blocked","summary":"`+a.Stop.Summary+`","step":2,"stale":false}`, marshal(t, a.Stop))

	unknown := p.stop("b", "tired").(Stopped)
	p.batch(unknown)
	require.Equal(t, Presented, p.batch(p.answer("b"))[1].(Done).Decision.Status)
	require.Equal(t, Complete, p.state.View().Agents[1].Stop.Status, "nothing else is known but blocked")
	require.Empty(t, p.state.View().Votes, "stops are no votes")
}

// Only fresh votes are counted; superseded ones are counted separately.
func TestViewVotes(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "b"), p.vote("b", "b"))
	require.Equal(t, map[string]int{"b": 2}, p.state.View().Votes)
	p.batch(p.answer("c"))
	require.Empty(t, p.state.View().Votes)
	require.True(t, p.state.View().Agents[0].Vote.Stale)
	p.batch(p.vote("a", "c"))
	require.Equal(t, map[string]int{"c": 1}, p.state.View().Votes)
}

// Changing a view does not change the state.
func TestViewIsACopy(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(p.vote("a", "b"))
	v := p.state.View()
	v.Votes["b"], v.Agents[0].Vote.Target = 9, "x"
	require.Equal(t, map[string]int{"b": 1}, p.state.View().Votes)
	require.Equal(t, "b", p.state.View().Agents[0].Vote.Target)
}

// Superseded votes are counted, and completion is 100 only when the session is done.
func TestViewOfSupersededVotes(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	require.Zero(t, p.state.View().Completion)
	p.batch(p.vote("a", "b"), p.vote("b", "b"))
	v := p.state.View()
	require.Equal(t, map[string]int{"b": 2}, v.Votes)
	require.Zero(t, v.Superseded)
	require.Equal(t, 66, v.Completion)

	p.batch(p.answer("c"))
	v = p.state.View()
	require.Empty(t, v.Votes)
	require.Zero(t, v.Superseded, "a stale vote stands until it is cast again")
	require.Zero(t, v.Completion)

	p.batch(p.vote("a", "c"), p.answer("b"))
	require.Equal(t, 2, p.state.View().Superseded, "cast again, and withdrawn")
	p.batch(p.vote("a", "c"), p.vote("b", "c"), p.vote("c", "c"))
	p.batch(p.vote("a", "c"), p.vote("b", "c"), p.vote("c", "c"))
	require.True(t, p.state.Done())
	require.Equal(t, 100, p.state.View().Completion)
}

// A result distinguishes a unanimous team from a single survivor, and a majority from a broken tie.
func TestView_turnout(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(c *Config) { c.OnSplit = "plurality" }, "a", "b", "c", "d"))
	p.batch(p.vote("a", "b"), p.vote("b", "a"), p.fail("c"), p.vote("d", "d"))
	v, d := p.state.View(), p.state.Decision()
	require.Equal(t, []string{"a", "b", "d"}, v.Voters())
	require.Equal(t, []FailedAgent{{ID: "c", Error: Failure{Type: "overloaded", Message: "the model was overloaded"}}}, v.Failed())
	require.Equal(t, Plurality, d.Status)
	require.Equal(t, []string{"a", "b", "d"}, d.Tied)
	require.Empty(t, View{}.Voters())
}

// Equal answers count as one in a tie, and their votes are pooled.
func TestDecision_tied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		equal map[string]string // digests, by agent
		votes map[string]string // targets, by voter
		want  []string
	}{
		"a tie":                       {nil, map[string]string{"a": "b", "b": "a"}, []string{"a", "b"}},
		"more votes":                  {nil, map[string]string{"a": "b", "b": "b", "c": "a"}, nil},
		"more votes together":         {map[string]string{"a": "x", "c": "x"}, map[string]string{"a": "c", "b": "a", "c": "a", "d": "b", "e": "b"}, nil},
		"equal answers alone":         {map[string]string{"a": "x", "b": "x"}, map[string]string{"a": "b", "b": "a"}, nil},
		"equal answers with another":  {map[string]string{"a": "x", "b": "x"}, map[string]string{"a": "b", "b": "a", "c": "d", "d": "d"}, []string{"a", "d"}},
		"nobody voted for the winner": {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlayer(teamWith(func(c *Config) { c.OnSplit = "plurality" }, "a", "b", "c", "d", "e"))
			p.drain()
			var answers []Event
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				e := p.answer(id).(Answered)
				e.Digest = Digest{Normalized: c.equal[id]}
				answers = append(answers, e)
			}
			p.batch(answers...)
			var votes []Event
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				if target := c.votes[id]; target != "" {
					votes = append(votes, p.vote(id, target))
				} else {
					votes = append(votes, p.fail(id))
				}
			}
			p.batch(votes...)
			require.Equal(t, c.want, p.state.Decision().Tied)
		})
	}
}

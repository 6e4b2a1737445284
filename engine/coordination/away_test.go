package coordination

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// away returns a session of three agents of which a and b have answered and c is away.
func away(t *testing.T) *player {
	t.Helper()
	p := start(team("a", "b", "c"))
	out := &Doing{Since: time.Unix(7, 0), What: "the model does not reply"}
	p.batch(p.answer("a"), p.answer("b"), ModelReport{Launch: p.launchOf("c"), Out: out})
	require.True(t, p.state.agentOf("c").Run.Away)
	return p
}

// People see since when the model of an agent that is away does not reply. It has not failed.
func TestAway_view(t *testing.T) {
	t.Parallel()
	p := away(t)
	c := p.state.View().Agents[2]
	require.Equal(t, &Doing{Kind: ModelAway, Since: time.Unix(7, 0), What: "the model does not reply"}, c.Doing)
	require.True(t, c.Running)
	require.Equal(t, "no_action", c.Status)
	require.Nil(t, c.Error)
	require.Empty(t, p.state.View().Failed())
	p.batch(p.vote("a", "a"))
	d := decision(t, p.batch(p.vote("b", "a")))
	require.Equal(t, "consensus: a (agent1.1) without c", d.text())
}

// The caller of the session is asked while an agent is away, as if nothing ran.
func TestAway_whileTheCallerIsAwaited(t *testing.T) {
	t.Parallel()
	p := away(t)
	for _, id := range []string{"a", "b"} {
		p.step(Awaiting{End: End{Launch: p.launchOf(id), Step: 2}, Token: "t", Calls: []Call{{ID: id, Digest: id}}})
	}
	p.drain()
	require.True(t, p.state.AwaitsCaller())
}

// Every launch knows the longest call of the steps that have ended.
func TestAway_longestCall(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	for id, seconds := range map[string]float64{"a": 40, "b": 3} {
		e := p.answer(id).(Answered)
		e.LongestCall = seconds
		p.step(e)
	}
	p.drain()
	require.InDelta(t, 40, p.last("a").LongestCall, 0)
	require.InDelta(t, 40, p.last("b").LongestCall, 0)
}

package coordination

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 68. The issue: "below it nothing is decided by vote; the session parks or fails as
// on_agent_failure says".
func TestRule68_TooFewAgents(t *testing.T) {
	t.Parallel()
	atLeast := func(n int, policy string) func(*Config) {
		return func(c *Config) { c.MinActive, c.OnAgentFailure = n, policy }
	}
	lone := func(change func(*Config)) (*player, []Command) {
		p := playerOf(New(teamWith(change, "a", "b")))
		p.drain()
		p.batch(p.answer("a"), p.answer("b"))
		return p, p.batch(p.vote("a", "a"), p.fail("b"))
	}
	_, commands := lone(atLeast(2, failureContinue))
	d := decision(t, commands)
	require.Equal(t, FailedAll, d.Status)
	require.Equal(t, causeTooFew, d.Cause)

	p, commands := lone(atLeast(2, failurePark))
	require.Empty(t, only[Done](commands))
	require.True(t, p.state.Held())
	require.Equal(t, Finished, decision(t, p.batch(Finish{})).Status)

	_, commands = lone(atLeast(1, failureContinue))
	require.Equal(t, Consensus, decision(t, commands).Status)
}

// 53. An outage is waited for once, not by every launch. A resumed step gets the beginning of the
// outage, unless a person retries it.
func TestRule53_TheOutageGoesOn(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_700_000_000, 0).UTC()
	away := func(p *player) Failed {
		f := p.fail("a").(Failed)
		f.Outage, f.AwaySince = Interrupted, since
		return f
	}
	p := playerOf(New(team("a")))
	p.drain()
	require.Equal(t, Wait{Seconds: 60}, only[Wait](p.batch(away(p)))[0])
	require.Equal(t, since, only[Launch](p.batch(Waited{}))[0].AwaySince)
	p.batch(away(p))
	require.Zero(t, only[Launch](p.batch(Retry{}))[0].AwaySince, "it was mended, says a person")
	require.Zero(t, only[Launch](p.batch(p.answer("a")))[0].AwaySince)
}

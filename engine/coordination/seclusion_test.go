package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func secluded(c *Config) { c.Secluded, c.AnswersPerAgent, c.Updates = true, 2, Inject }

// 69. Seed 001: independent refinement "bypasses peer-answer propagation".
func TestRule69_PeersAreNotShown(t *testing.T) {
	t.Parallel()
	p := start(teamWith(secluded, "a", "b"))
	commands := p.batch(p.answer("a"), p.answer("b"))
	for _, l := range launches(commands) {
		require.Len(t, l.Shown, 1)
		require.Equal(t, l.Agent, l.Shown[0].Agent)
		require.Equal(t, Updates{}, l.Updates)
	}
	p.step(p.vote("a", "a"), p.answer("b"))
	require.True(t, p.state.isFresh(p.state.agentOf("a")), "b's answer makes it stale only when it is shown")
	require.Equal(t, []string{"a", "b"}, launched(p.drain()))
	require.False(t, p.state.isFresh(p.state.agentOf("a")))
}

// 69. In divided work every agent needs the parts of the others, so peers are shown.
func TestRule69_NotInDividedWork(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(c *Config) { secluded(c); c.Mode = Decomposition }, "a", "b"))
	commands := p.batch(p.answer("a"), p.answer("b"))
	require.Len(t, launches(commands)[0].Shown, 2)
}

// 70. and 71. "until all have answered as often as they may".
func TestRule70_LimitOfAnswersWaits(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(c *Config) { secluded(c); c.AnswersPerAgent = 1; c.Pacing = pacingContinuous }, "a", "b"))
	require.Empty(t, p.batch(p.answer("a"))[1:], "a has answered as often as it may")
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.answer("b"))))
}

func TestRule71_EverythingIsShownOnce(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(c *Config) { secluded(c); c.AnswersPerAgent = 0 }, "a", "b"))
	p.batch(p.answer("a"), p.answer("b"))
	commands := p.batch(p.vote("a", "a"), p.vote("b", "b"))
	require.Empty(t, only[Done](commands), "satisfied agents alone are no decision")
	require.Len(t, launches(commands)[0].Shown, 2)
	require.True(t, p.state.Shared)
	commands = p.batch(p.answer("a"), p.vote("b", "b"))
	require.Len(t, launches(commands)[0].Shown, 2, "the seclusion does not begin again")
}

// 72. Seed 001: agents work asynchronously and "can sit in different local rounds".
func TestRule72_SoloRefinementToTheLeadCap(t *testing.T) {
	t.Parallel()
	lead := 2
	solo := func(c *Config) { c.Pacing, c.Solo, c.LeadCap = pacingContinuous, true, &lead }
	p := start(teamWith(solo, "a", "b"))
	require.Equal(t, []string{"a"}, launched(p.batch(p.answer("a"))))
	require.Empty(t, launched(p.batch(p.answer("a"))), "two answers ahead of b")
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.answer("b"))))

	without := start(teamWith(func(c *Config) { solo(c); c.Solo = false }, "a", "b"))
	require.Empty(t, launched(without.batch(without.answer("a"))))
}

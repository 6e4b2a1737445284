package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// agreeing plays a session in which agent_a and agent_c independently give equal answers, and
// returns the decision. agent_b has two votes, the others one each.
func agreeing(t *testing.T, change func(*Config), digests map[string]Digest) Decision {
	t.Helper()
	config := teamWith(change, "agent_b", "agent_a", "agent_c", "agent_d")
	config.OnSplit = splitPlurality
	p := playerOf(New(config))
	p.drain()
	for _, id := range config.Agents {
		answer := p.answer(id).(Answered)
		answer.Digest = digests[id]
		p.step(answer)
	}
	p.drain()
	return decision(t, p.batch(p.vote("agent_a", "agent_c"), p.vote("agent_c", "agent_a"), p.vote("agent_d", "agent_b"), p.vote("agent_b", "agent_d")))
}

// 74. The contract: "equal answers: the same after NFKC … or byte for byte; where all have a
// last line ANSWER: …, that line alone is compared".
func TestRule74_EqualAnswersPool(t *testing.T) {
	t.Parallel()
	same := map[string]Digest{"agent_a": {Exact: "A", Normalized: "n"}, "agent_c": {Exact: "C", Normalized: "n"}}
	normalized, exact := func(*Config) {}, func(c *Config) { c.Agree = agreeExact }
	line := Digest{Exact: "x", Normalized: "x", ExactLine: "42", NormalizedLine: "42"}
	other := Digest{Exact: "y", Normalized: "y", ExactLine: "7", NormalizedLine: "7"}
	lines := map[string]Digest{"agent_a": line, "agent_b": other, "agent_c": line, "agent_d": {NormalizedLine: "8"}}
	lines["agent_c"] = Digest{Exact: "z", Normalized: "z", ExactLine: "42", NormalizedLine: "42"}
	require.Equal(t, "agent_a", agreeing(t, normalized, same).Winner)
	require.Equal(t, "agent_b", agreeing(t, exact, same).Winner, "their bytes differ")
	require.Equal(t, "agent_a", agreeing(t, normalized, lines).Winner, "only the last lines are compared")
	lines["agent_d"] = Digest{Normalized: "w"}
	require.Equal(t, "agent_b", agreeing(t, normalized, lines).Winner, "one answer has no such line")
	require.Equal(t, "agent_b", agreeing(t, normalized, nil).Winner, "nothing is known of the answers")
}

// 73. The issue: "equal answers … given independently pool in plurality and forced decisions".
func TestRule73_CopiesStandAlone(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	first := p.answer("a").(Answered)
	first.Digest = Digest{Normalized: "n"}
	p.batch(first, p.answer("b"))
	copied := p.answer("b").(Answered)
	copied.Digest = Digest{Normalized: "n"}
	p.batch(copied, p.vote("a", "a"))
	require.True(t, p.state.agentOf("b").Copied)
	require.False(t, p.state.agentOf("a").Copied)
	require.Len(t, p.state.equalAnswers(p.state.agentOf("a")), 1)
}

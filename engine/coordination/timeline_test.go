package coordination_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

// The timeline keeps 50 entries, numbered from the first, and cuts what agents wrote.
func TestTimeline(t *testing.T) {
	t.Parallel()
	require.NotNil(t, c.New(team("a")).Timeline())
	p := answered(team("a"))
	vote := p.vote("a", "a").(c.Voted)
	vote.Reason = strings.Repeat("é", 300) + "\xff"
	p.step(vote)
	timeline := p.state.Timeline()
	last := timeline[len(timeline)-1]
	require.Equal(t, c.EntryVote, last.Kind)
	require.Equal(t, "a voted for a (agent1.1)", last.Text)
	require.Equal(t, strings.Repeat("é", 280), last.Reason)
	require.Equal(t, strings.Repeat("é", 280), p.state.View().Agents[0].Vote.Reason)

	for i := range 60 {
		p.step(c.Failed{Launch: c.LaunchID("x" + strconv.Itoa(i))})
	}
	timeline = p.state.Timeline()
	require.Len(t, timeline, 50)
	for i, e := range timeline {
		require.Equal(t, p.state.Events-49+i, e.Seq)
		require.NotEmpty(t, e.Text)
	}
}

// The timeline says which votes an answer makes stale, and which come too late.
func TestTimelineTellsOfStaleVotes(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c", "d"))
	p.step(p.vote("a", "b"), p.vote("b", "b"), p.answer("c"), p.vote("d", "b"))
	var texts []string
	for _, e := range p.state.Timeline() {
		texts = append(texts, e.Text)
	}
	require.Equal(t, []string{
		"a voted for b (agent2.1)",
		"b voted for b (agent2.1)",
		"c answered agent3.2; the votes of a and b are stale now",
		"d voted for b (agent2.1), stale already",
	}, texts[len(texts)-4:])
}

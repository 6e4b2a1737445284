package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 16. Seed 000: "A vote is stale if: for any agent_id in session:
// vote.seen_steps[agent_id] < latest_answer_step(agent_id)". CONTRACT: "an agent
// that is absent counts as 0". DESIGN: "any active or failed agent".
func TestRule16_Staleness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen  []Seen
		stale bool
	}{
		"saw all":                 {[]Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 1}, {Agent: "c", Step: 1}}, false},
		"any order, with others":  {[]Seen{{Agent: "x", Step: 9}, {Agent: "c", Step: 1}, {Agent: "b", Step: 1}, {Agent: "a", Step: 1}}, false},
		"not its own":             {[]Seen{{Agent: "b", Step: 1}, {Agent: "c", Step: 1}}, true},
		"not that of the failed":  {[]Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 1}}, true},
		"zero is not having seen": {[]Seen{{Agent: "a", Step: 1}, {Agent: "b", Step: 0}, {Agent: "c", Step: 1}}, true},
		"nothing":                 {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(team("a", "b", "c"))
			p.batch(p.fail("c"), Voted{End: End{Launch: p.latest["a"], Step: 2}, Choice: Choice{Target: "b"}, Seen: test.seen})
			require.Equal(t, test.stale, p.state.View().Agents[0].Vote.Stale)
			require.Equal(t, test.stale, len(p.state.Tally()) == 0)
		})
	}
}

// 16. CONTRACT: "A stop goes stale like a vote." Seed 001: an accepted answer resets "all terminal
// decisions (has_voted, vote payloads, stop metadata)".
func TestRule16_StopGoesStaleLikeAVote(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "a", "b"))
	p.batch(p.stop("a", Complete))
	require.False(t, p.state.View().Agents[0].Stop.Stale)
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.answer("b"))), "a is woken up")
	require.True(t, p.state.View().Agents[0].Stop.Stale)
}

// 16. Seed 000: only "a new_answer" makes votes stale. Other votes and stops do not.
func TestRule16_VotesAndStopsDoNotMakeStale(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"))
	p.batch(p.vote("b", "b"))
	require.False(t, p.state.View().Agents[0].Vote.Stale)

	p = answered(teamWith(decomposed, "a", "b", "c"))
	p.batch(p.stop("a", Complete))
	p.batch(p.stop("b", Blocked))
	require.False(t, p.state.View().Agents[0].Stop.Stale)
}

// 16. DESIGN: "Human messages (say) are news: votes that have not seen them are
// stale." A message to another agent does not count.
func TestRule16_MessagesMakeStale(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to    string
		stale []bool // of a and b
	}{
		"to all":         {to: "", stale: []bool{true, true}},
		"to a":           {to: "a", stale: []bool{true, false}},
		"to c, at work":  {to: "c", stale: []bool{false, false}},
		"to b, and only": {to: "b", stale: []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(team("a", "b", "c"))
			p.batch(p.vote("a", "a"), p.vote("b", "b"), Said{Agent: test.to, Text: "hm"})
			for i, stale := range test.stale {
				require.Equal(t, stale, p.state.View().Agents[i].Vote.Stale)
			}
		})
	}
}

// 16. A vote is fresh if its step received the message, at its launch or later.
func TestRule16_HeardMessagesDoNotMakeStale(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	p.batch(Said{Text: "be brief"})
	vote := p.vote("a", "b").(Voted)
	vote.Seen, vote.Heard = p.witnessed(vote.Launch)
	require.Equal(t, []string{"b"}, launched(p.batch(vote, p.vote("b", "b"))))
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("b", "b"))).Status, "b received it at its launch")
}

// 17. DESIGN: "seen_steps is recorded from what was actually placed in the agent's context". A
// report of later answers would keep a vote fresh forever.
func TestRule17_SeenIsBoundedByAcceptedAnswers(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	p.batch(p.answer("a"), p.fail("b"))
	records := only[Record](p.batch(Answered{
		End:  End{Launch: p.latest["a"], Step: 2},
		Seen: []Seen{{Agent: "x", Step: 1}, {Agent: "b", Step: 5}, {Agent: "a", Step: 7}, {Agent: "a", Step: 1}},
	}))
	require.Equal(t, []Seen{{Agent: "a", Step: 1}}, records[0].Entry.Seen)
	vote := Voted{End: End{Launch: p.latest["a"], Step: 3}, Choice: Choice{Target: "a"}, Seen: []Seen{{Agent: "a", Step: 0}}}
	require.Empty(t, only[Record](p.batch(vote))[0].Entry.Seen, "step 0 is no answer")
}

// 17. A step cannot have received a later message.
func TestRule17_HeardIsBoundedByTheMessages(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	vote := p.vote("a", "b").(Voted)
	vote.Heard = 7
	p.batch(vote)
	p.batch(Said{Text: "the first"})
	require.True(t, p.state.View().Agents[0].Vote.Stale)

	vote = p.vote("b", "b").(Voted)
	vote.Heard = -1
	p.batch(vote)
	require.True(t, p.state.View().Agents[1].Vote.Stale)
}

package coordination

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// 40. DESIGN: "then plurality, ties by votes from other agents, then to the earliest
// configured agent that has an answer".
func TestRule40_Plurality(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ votes, want string }{
		"most votes":             {"a:a b:b c:c d:e e:e", "e"},
		"votes of others":        {"a:a b:a c:d d:e e:d", "d"},
		"configured first":       {"a:b b:a c:d d:c e:e", "a"},
		"own votes all the same": {"a:a b:b c:c d:d e:e", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(teamWith(func(o *Config) { o.OnSplit = splitPlurality }, "a", "b", "c", "d", "e"))
			for pair := range strings.FieldsSeq(test.votes) {
				voter, target, _ := strings.Cut(pair, ":")
				p.step(p.vote(voter, target))
			}
			d := decision(t, p.drain())
			require.Equal(t, Plurality, d.Status)
			require.Equal(t, test.want, d.Winner)
		})
	}
}

// 41. DESIGN: a forced decision "ranks answers by fresh votes, then by votes that named
// exactly that revision, then newest, then order".
func TestRule41_ForcedRanking(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c")) // two stale votes for agent1.1
	p.batch(p.answer("a"))                                     // and now they are for an old revision
	d := decision(t, p.batch(Finish{}))
	require.Equal(t, "a", d.Winner, "the newest")
	require.Equal(t, "agent1.2", d.WinnerLabel)

	p = answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c"))
	require.Equal(t, "a", decision(t, p.batch(Finish{})).Winner, "named exactly, though not the newest")

	p = answered(team("a", "b", "c"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"), p.answer("c"))
	require.Equal(t, "b", decision(t, p.batch(p.vote("c", "b"), Finish{})).Winner, "one fresh vote before two stale ones")
}

// 42. DESIGN: "Nobody answered: failed, exit code 2, with each agent's error". The decision has the
// status that forced it. CONTRACT, exit codes: "3 the session's time ran out".
func TestRule42_NoAnswers(t *testing.T) {
	t.Parallel()
	want := Decision{Status: FailedAll, Cause: "NoAnswer", Votes: []count{}}
	asked := func(by Status) Decision {
		d := want
		d.Asked = by
		return d
	}
	for by, event := range map[Status]Event{Timeout: TimeUp{}, Finished: Finish{}} {
		p := start(team("a", "b"))
		require.Equal(t, asked(by), decision(t, p.batch(event)))
	}
	p := start(team("a"))
	require.Equal(t, want, decision(t, p.batch(p.fail("a"))))
	require.Equal(t, "overloaded", p.state.View().Agents[0].Error.Type)
	require.Equal(t, want, decision(t, newPlayer(team()).drain()))

	p = start(teamWith(func(o *Config) { o.Budget.Tokens = 5 }, "a"))
	require.Equal(t, asked(OverSpent), decision(t, p.batch(spending(p.exhaust("a"), 5))))
	p = start(teamWith(func(o *Config) { o.MaxStepsPerAgent = 1 }, "a"))
	require.Equal(t, asked(Limit), decision(t, p.batch(p.exhaust("a"))))
	p = start(teamWith(decomposed, "a"))
	require.Equal(t, want, decision(t, p.batch(p.stop("a", Blocked))))
}

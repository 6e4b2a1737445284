package coordination

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	answerOnly   = []Action{NewAnswer}
	voteOnly     = []Action{Vote}
	stopOnly     = []Action{Stop}
	answerOrVote = []Action{NewAnswer, Vote}
	answerOrStop = []Action{NewAnswer, Stop}
)

// offers returns the permitted actions of each launch, by agent.
func offeredTo(commands []Command) map[string][]Action {
	offered := map[string][]Action{}
	for _, l := range launches(commands) {
		offered[l.Agent] = l.Offered
	}
	return offered
}

// 11. Seed 001, limits: "voting mode: hitting limits moves agent to vote-only behavior".
// max_new_answers_per_agent is a limit for each agent.
func TestRule11_AnswersPerAgent(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.AnswersPerAgent = 2 }, "a", "b"))
	commands := p.batch(p.answer("a"), p.vote("b", "b"))
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": answerOrVote}, offeredTo(commands))
	require.Empty(t, only[Record](p.batch(p.answer("a"))), "an action that is not offered is not accepted")
}

// 11. Seed 001: "max_new_answers_global". DESIGN: "Permitted actions are computed at launch". A
// running step that may answer reserves its place, so that the last place is not offered twice.
func TestRule11_GlobalLimitIsReserved(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) { o.AnswersGlobal, o.Pacing = 4, "continuous" }, "a", "b", "c")
	p := answered(config)
	require.Equal(t, []Action{NewAnswer, Vote}, p.last("a").Offered, "three answers, one place: a's, who is configured first")
	require.Equal(t, voteOnly, p.last("b").Offered)
	require.Equal(t, voteOnly, p.last("c").Offered)

	require.Empty(t, p.batch(Exhausted{End: End{Launch: p.latest["c"], Step: 2}}), "a still has it; c has nothing new")
	require.Len(t, only[Record](p.batch(p.answer("a"))), 1, "and may use it in any case")
}

// 11. The global limit also applies to first answers. An agent without an answer may vote, but only
// once there is an answer to vote for.
func TestRule11_NoLaunchWithoutAnAction(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *Config) { o.AnswersGlobal = 1 }, "a", "b"))
	require.Equal(t, map[string][]Action{"a": answerOnly}, offeredTo(p.drain()), "DESIGN: no step is launched with none")
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": voteOnly}, offeredTo(p.batch(p.answer("a"))))
}

// 12. Seed 001, fairness: "fairness_lead_cap_answers: max revision lead over slowest active peer".
// Each case has the agent's own number of answers, that of the slowest peer, and the cap; -1 means
// no cap.
func TestRule12_LeadCap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lead, own, slowest int
		may                bool
	}{
		{lead: -1, own: 3, slowest: 0, may: true},
		{lead: 0, own: 1, slowest: 1, may: false}, // cap 0: never ahead
		{lead: 0, own: 1, slowest: 2, may: true},
		{lead: 1, own: 1, slowest: 1, may: true},
		{lead: 1, own: 2, slowest: 1, may: false},
		{lead: 1, own: 1, slowest: 0, may: false},
		{lead: 2, own: 1, slowest: 0, may: true},
		{lead: 2, own: 2, slowest: 1, may: true},
		{lead: 2, own: 2, slowest: 0, may: false},
		{lead: 0, own: 0, slowest: 0, may: true}, // the first answer is never held back
		{lead: 0, own: 0, slowest: 1, may: true},
	} {
		p := newPlayer(teamWith(func(o *Config) {
			if test.lead >= 0 {
				o.LeadCap = &test.lead
			}
		}, "a", "slow"))
		// Set up the state directly, because rounds would not permit it.
		for i := range p.state.Agents {
			for step := range map[string]int{"a": test.own, "slow": test.slowest}[p.state.Agents[i].ID] {
				p.state.Agents[i].Answers = append(p.state.Agents[i].Answers, step+1)
				p.state.Agents[i].Step = step + 1
			}
		}
		p.drain()
		require.Equal(t, test.may, slices.Contains(p.last("a").Offered, NewAnswer), "%+v", test)
	}
}

// 12. Seed 001: "max revision lead over slowest active peer". An agent that has voted, failed or
// reached its step limit does not delay others.
func TestRule12_OnlyPeersThatCanCatchUpCount(t *testing.T) {
	t.Parallel()
	one := 1
	config := teamWith(func(o *Config) { o.LeadCap, o.MaxStepsPerAgent = &one, 4 }, "a", "slow")
	p := start(config)
	commands := p.batch(p.answer("a"), p.exhaust("slow"))
	require.Equal(t, voteOnly, offeredTo(commands)["a"], "one ahead of slow, who works on")
	commands = p.batch(p.exhaust("a"), p.fail("slow"))
	require.Equal(t, answerOrVote, offeredTo(commands)["a"])

	p = start(config)
	commands = p.batch(p.answer("a"), p.exhaust("slow"))
	require.Equal(t, voteOnly, offeredTo(commands)["a"])
	commands = p.batch(p.exhaust("a"), p.vote("slow", "a"))
	require.Equal(t, answerOrVote, offeredTo(commands)["a"], "slow is content")

	p = start(config)
	p.batch(p.answer("a"), p.exhaust("slow"))
	p.batch(p.vote("a", "a"), p.exhaust("slow"))
	p.batch(p.exhaust("slow"))
	p.batch(Said{Agent: "a", Text: "look again"})
	require.Equal(t, map[string][]Action{"a": answerOrVote}, offeredTo(p.batch(p.exhaust("slow"))), "slow is at its limit of steps")
}

// 12. Seed 001: "pre-start fairness pause: prevents expensive rounds that would fail fairness
// anyway". An agent waits only while a slower peer is running.
func TestRule12_WaitsForARunningSlowerPeer(t *testing.T) {
	t.Parallel()
	one := 1
	p := start(teamWith(func(o *Config) { o.LeadCap, o.Pacing = &one, "continuous" }, "a", "b", "slow"))
	require.Empty(t, launches(p.batch(p.answer("a"), p.answer("b"))), "each has news of the other, and waits")
	commands := p.batch(p.fail("slow"))
	require.Equal(t, map[string][]Action{"a": answerOrVote, "b": answerOrVote}, offeredTo(commands))
}

// 12. DESIGN: "over the cap means vote-only". With cap 0, where every agent would wait for another,
// none waits forever.
func TestRule12_CapZeroDecides(t *testing.T) {
	t.Parallel()
	for _, pacing := range []string{"rounds", "continuous"} {
		none := 0
		p := answered(teamWith(func(o *Config) { o.LeadCap, o.Pacing = &none, pacing }, "a", "b"))
		for range 4 {
			for _, id := range []string{"a", "b"} {
				p.batch(p.vote(id, "b"))
			}
		}
		require.Equal(t, Consensus, p.state.Decision().Status, pacing)
	}
}

// 12. In a revote after a split the voting agents count as active, although their votes are fresh.
func TestRule12_LeadCapInARevote(t *testing.T) {
	t.Parallel()
	none := 0
	p := answered(teamWith(func(o *Config) { o.LeadCap = &none }, "a", "b"))
	commands := p.batch(p.vote("a", "a"), p.vote("b", "b"))
	require.True(t, p.last("a").Revote)
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": voteOnly}, offeredTo(commands))
}

// 13. DESIGN: "Only agents with an answer can be voted for": no answer, no vote.
func TestRule13_VoteNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	require.Equal(t, answerOnly, p.last("a").Offered)
	require.Equal(t, map[string][]Action{"a": answerOrVote, "b": answerOrVote}, offeredTo(p.batch(p.answer("a"), p.exhaust("b"))))
}

// 13. Seed 001: "defer_voting_until_all_answered can keep capped agents waiting until
// all peers have at least one answer (unless global cap is already reached)".
func TestRule13_DeferredVoting(t *testing.T) {
	t.Parallel()
	config := teamWith(func(o *Config) { o.DeferVoting, o.MaxStepsPerAgent = true, 3 }, "a", "b", "c")

	p := start(config)
	commands := p.batch(p.answer("a"), p.answer("b"), p.exhaust("c"))
	require.Equal(t, map[string][]Action{"c": answerOnly}, offeredTo(commands), "a and b wait for c")
	commands = p.batch(p.answer("c"))
	require.Equal(t, map[string][]Action{"a": answerOrVote, "b": answerOrVote, "c": answerOrVote}, offeredTo(commands))

	p = start(config)
	p.batch(p.answer("a"), p.answer("b"), p.exhaust("c"))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.fail("c"))), "c will never answer")

	p = start(config)
	p.batch(p.answer("a"), p.answer("b"), p.exhaust("c"))
	p.batch(p.exhaust("c"))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.exhaust("c"))), "c is at its limit of steps")

	capped := config
	capped.AnswersGlobal = 2
	p = start(capped)
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": voteOnly, "c": voteOnly},
		offeredTo(p.batch(p.answer("a"), p.answer("b"))), "the global limit is reached: c, who had to wait, may vote at once")
}

// 13. Seed 001, the ensemble pattern: "Agents produce answers independently (no peer visibility),
// then vote on the best, and the winner synthesizes insights from all others."
func TestRule13_Ensemble(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) {
		o.DeferVoting, o.AnswersPerAgent, o.Strategy = true, 1, synthesize
	}, "a", "b", "c"))
	require.Empty(t, launches(p.batch(p.answer("c"))))
	require.Empty(t, launches(p.batch(p.answer("a"))))
	commands := p.batch(p.answer("b"))
	require.Equal(t, map[string][]Action{"a": voteOnly, "b": voteOnly, "c": voteOnly}, offeredTo(commands))
	require.Len(t, p.last("a").Shown, 3)
	l := theLaunch(t, p.batch(p.vote("a", "c"), p.vote("b", "c"), p.vote("c", "c")))
	require.Equal(t, Present, l.Purpose)
	require.Equal(t, "c", l.Agent)
	require.Equal(t, Brief{Strategy: synthesize, Label: "agent3.1", Votes: 3, Voters: 3}, *l.Brief)
	require.Len(t, p.launches, 3+3+1, "one answer and one vote each, and the synthesis")
}

// 15. Seed 001, completion gate: "skip_voting mode with all agents answered".
func TestRule15_SkipVoting(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) { o.SkipVoting = true }, "a", "b"))
	commands := p.batch(p.answer("a"), p.exhaust("b"))
	require.Equal(t, map[string][]Action{"b": answerOnly}, offeredTo(commands), "a owes nothing")
	commands = p.batch(p.answer("b"))
	require.Equal(t, Decision{Status: Presented, Winner: "a", WinnerLabel: "agent1.1", WinnerStep: 1, Votes: []count{}}, decision(t, commands))
}

// 15. Seed 001, the ensemble pattern: "Without voting, the prompt is neutral". Nobody votes if
// every agent may answer once and all answers are synthesized, with four exceptions.
func TestRule15_SynthesizeWithoutVotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set   func(*Config)
		ids   []string
		votes bool
	}{
		"one answer each, synthesized": {set: func(*Config) {}, ids: []string{"a", "b"}},
		"voting deferred, so wanted":   {set: func(o *Config) { o.DeferVoting = true }, ids: []string{"a", "b"}, votes: true},
		"two answers each":             {set: func(o *Config) { o.AnswersPerAgent = 2 }, ids: []string{"a", "b"}, votes: true},
		"the winner's is reused":       {set: func(o *Config) { o.Strategy = winnerReuse }, ids: []string{"a", "b"}, votes: true},
		"one agent":                    {set: func(*Config) {}, ids: []string{"a"}, votes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := teamWith(func(o *Config) { o.Strategy, o.AnswersPerAgent = synthesize, 1 }, test.ids...)
			test.set(&config)
			p := answered(config)
			if test.votes {
				require.Contains(t, p.last("a").Offered, Vote)
				return
			}
			require.Equal(t, Present, p.last("a").Purpose, "the first configured agent with an answer")
			require.Equal(t, &Brief{Strategy: synthesize}, p.last("a").Brief, "neutral: nothing won")
		})
	}
}

// 15. The session does not wait for an agent that owes an answer but cannot give one.
func TestRule15_OwedButImpossible(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *Config) { o.SkipVoting, o.AnswersGlobal = true, 1 }, "a", "b"))
	require.Equal(t, []string{"a"}, launched(p.drain()))
	require.Equal(t, Limit, decision(t, p.batch(p.answer("a"))).Status)
}

// 11. Offers depend only on counts: a team of 26 behaves like a team of two.
func TestRule11_LargeTeam(t *testing.T) {
	t.Parallel()
	ids := make([]string, 26)
	for i := range ids {
		ids[i] = "m" + strconv.Itoa(i)
	}
	p := answered(teamWith(func(o *Config) { o.AnswersGlobal = 30 }, ids...))
	may := 0
	for _, id := range ids {
		if slices.Contains(p.last(id).Offered, NewAnswer) {
			may++
		}
	}
	require.Equal(t, 4, may)
}

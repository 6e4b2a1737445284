package coordination

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecision_decidedBy(t *testing.T) {
	t.Parallel()
	votes := []count{{Target: "a", Votes: 2}}
	for want, d := range map[Basis]Decision{
		"":          {Status: FailedAll},
		ByVotes:     {Status: Plurality, Winner: "a", Votes: votes},
		ByQuorum:    {Status: Undecided, Despite: Consensus, Winner: "a", Votes: votes, By: ByQuorum},
		ByAgreement: {Status: Consensus, Winner: "a", By: ByAgreement},
		ByPresenter: {Status: Presented, Winner: "a"},
		ByForce:     {Status: Undecided, Despite: Limit, Winner: "a", Votes: votes},
	} {
		require.Equal(t, want, d.DecidedBy())
	}
}

// 84. Only first answers of others whose authors were not shown another answer count.
func TestRule84_Agreement(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b", "c", "d"))
	first := func(agent, text string, seen ...Seen) Event {
		e := p.answer(agent).(Answered)
		e.Digest, e.Seen = Digest{Normalized: text}, append(e.Seen, seen...)
		return e
	}
	p.batch(first("a", "42"), first("b", "42"), first("c", "43"), first("d", "42", Seen{Agent: "a", Step: 1}))
	done := only[Done](p.batch(p.vote("a", "b"), p.vote("b", "b"), p.vote("c", "b"), p.vote("d", "c")))
	support := done[0].Decision.Support
	require.InDelta(t, 0.75, support.Share, 1e-9)
	require.InDelta(t, 0.5, *support.Agreement, 1e-9)
	require.Nil(t, support.Confidence)
}

func TestProbability(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1)} {
		require.Nil(t, validProbability(&p), p)
	}
	sure := 0.25
	kept := validProbability(&sure)
	sure = 1
	require.InDelta(t, 0.25, *kept, 0, "a copy")
	require.Nil(t, validProbability(nil))
}

// Agents on record are members of the team.
func TestRule79_OnRecord(t *testing.T) {
	t.Parallel()
	config := teamWith(func(c *Config) { c.Start = 1 }, "a", "b", "c")
	s := New(config)
	s.CatchUp(Reopened{}, nil, []Claim{{Agent: "b", Event: Answered{End: End{Launch: "l2", Step: 1}}}})
	require.Equal(t, []bool{false, false, true}, absences(s))
	s = Recall(config, []OnRecord{{Agent: "c", Step: 1, Steps: 1, Answers: []int{1}}}, nil)
	require.Equal(t, []bool{false, true, false}, absences(s))
}

func absences(s *State) []bool {
	var absent []bool
	for _, a := range s.View().Agents {
		absent = append(absent, a.Absent)
	}
	return absent
}

// If 80 percent of the questions get equal answers, a staged team of three needs at most 0.6 of the
// tokens of a team in which all agents answer and vote, and decides as many questions correctly. A
// step costs 100 tokens and 50 for each answer that it is shown.
func TestStagedTeam_tokens(t *testing.T) {
	t.Parallel()
	staged := teamWith(func(c *Config) { c.Start, c.Early = 2, true }, "a", "b", "c")
	all := team("a", "b", "c")
	right := map[bool]int{}
	tokens := map[bool]int64{}
	for question := range uint64(500) {
		chance := rand.New(rand.NewPCG(question, 0))
		words := []string{"right", "right", "right"}
		if chance.IntN(5) == 0 {
			words[chance.IntN(2)] = "wrong"
		}
		for inStages, config := range map[bool]Config{true: staged, false: all} {
			spent, winner := askTeam(t, config, words)
			tokens[inStages] += spent
			if winner == "right" {
				right[inStages]++
			}
		}
	}
	require.Equal(t, 500, right[false])
	require.Equal(t, right[false], right[true], "no loss")
	ratio := float64(tokens[true]) / float64(tokens[false])
	t.Logf("tokens of a staged team by those of all: %.3f", ratio)
	require.LessOrEqual(t, ratio, 0.6)
}

// askTeam plays a session whose agents answer with their words, and vote for the right word if it
// is shown. It returns the tokens and the winning word.
func askTeam(t *testing.T, config Config, words []string) (spent int64, winner string) {
	t.Helper()
	word := map[string]string{}
	for i, id := range config.Agents {
		word[id] = words[i]
	}
	p := start(config)
	for range 20 {
		for _, l := range p.state.RunningSteps() {
			cost := int64(100 + 50*len(l.Shown))
			spent += cost
			if len(l.Shown) == 0 {
				e := p.answer(l.Agent).(Answered)
				e.Digest = Digest{Normalized: word[l.Agent]}
				p.step(spending(e, cost))
				continue
			}
			best := l.Shown[0].Agent
			for _, shown := range l.Shown {
				if word[shown.Agent] == "right" {
					best = shown.Agent
				}
			}
			p.step(spending(p.vote(l.Agent, best), cost))
		}
		if p.drain(); p.state.Done() {
			require.Equal(t, spent, p.state.Cost().InputTokens)
			return spent, word[p.state.Decision().Winner]
		}
	}
	require.Fail(t, "no decision", strconv.Itoa(p.state.Round))
	return 0, ""
}

// 95. Checks that only their author's own answer passes weigh as much as one vote for it: they never win against an
// answer that is two votes ahead, nor against one that is ahead by a vote of an agent with another answer.
func TestRule95_forgedChecks(t *testing.T) {
	t.Parallel()
	won, withstood := 0, 0
	for seed := range uint64(3000) {
		chance := rand.New(rand.NewPCG(seed, 95))
		names := []string{"a", "b", "c", "d", "e", "f", "g"}[:3+chance.IntN(5)]
		p := start(teamWith(func(c *Config) { c.Ballot, c.OnSplit = checksDecide, splitPlurality }, names...))
		forger, text := names[chance.IntN(len(names))], map[string]string{}
		for _, name := range names {
			text[name] = "text " + strconv.Itoa(chance.IntN(3))
			e := p.answer(name).(Answered)
			if name == forger {
				text[name], e.Checks = "wrong", []string{"x", "y", "z"}[:1+chance.IntN(3)]
			}
			e.Digest = Digest{Normalized: text[name]}
			p.step(e)
		}
		for _, check := range only[Check](p.drain()) {
			verdicts := "000"
			if check.Answer.Agent == forger {
				verdicts = "111"
			}
			p.step(Checked{ID: check.ID, Verdicts: verdicts[:len(check.Checks)]})
		}
		p.drain()
		votes, persuaded := map[string]int{}, map[string]int{}
		for _, name := range names {
			target := names[chance.IntN(len(names))]
			if chance.IntN(2) == 0 {
				target = name
			}
			if votes[text[target]]++; text[name] != text[target] {
				persuaded[text[target]]++
			}
			p.step(p.vote(name, target))
		}
		winner := text[only[Done](p.drain())[0].Decision.Winner]
		for other, n := range votes {
			lead := n - votes["wrong"]
			if lead < 1 {
				continue
			}
			if winner == "wrong" {
				won++
				require.Equal(t, 1, lead, seed)
				require.LessOrEqual(t, persuaded[other], persuaded["wrong"], seed)
			} else {
				withstood++
			}
		}
	}
	require.Positive(t, won)
	require.Positive(t, withstood)
}

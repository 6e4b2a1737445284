package coordination

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// 18. Seed 000: "Stale voters + new answerers re-launch": agents with a stale vote,
// without a vote or with an answer only are launched, in configured order; agents with
// a fresh vote are not.
func TestRule18_WhoIsLaunched(t *testing.T) {
	t.Parallel()
	p := answered(team("d", "c", "b", "a"))
	missed := Voted{End: End{Launch: p.latest["c"], Step: 2}, Choice: Choice{Target: "a"}, Seen: nil}
	commands := p.batch(p.vote("d", "a"), missed, p.vote("b", "nobody"), p.vote("a", "a"))
	require.Equal(t, []string{"c", "b"}, launched(commands), "a stale vote and no vote; fresh votes are left alone")
}

// 18. Seed 000: "ALL agents have completed their current step". In decomposition a stop completes
// an agent's work.
func TestRule18_FreshStopIsNotLaunched(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "a", "b"))
	require.Equal(t, []string{"b"}, launched(p.batch(p.stop("a", Complete), p.exhaust("b"))))
}

// 19. Seed 000, session lifecycle: in each round "All agents launch in parallel"; and
// DESIGN: "the next wave waits for this one".
func TestRule19_NextWaveWaits(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b", "c"))
	require.Empty(t, launches(p.batch(p.answer("a"))))
	require.Empty(t, launches(p.batch(p.answer("b"))))
	third := launches(p.batch(p.answer("c")))
	require.Len(t, third, 3)
	require.Equal(t, 2, third[0].Round)
	require.Equal(t, 2, p.state.View().Round)
}

// 20. Seed 001: "agents are not lockstep-synchronized and can sit in different local
// rounds at the same time". Seed 000: "Agents at independent step counts: Agent A
// might be on step 5 while Agent B is on step 2."
func TestRule20_IndependentSteps(t *testing.T) {
	t.Parallel()
	p := start(teamWith(continuous, "a", "b", "slow"))
	p.batch(p.answer("a"), p.answer("b"))
	for range 3 {
		p.batch(p.answer("a"))
		p.batch(p.answer("b"))
	}
	require.Equal(t, 1, p.last("slow").Round)
	require.Equal(t, 5, p.last("a").Round)
	require.Equal(t, 5, p.state.View().Round, "the session's is the highest")
	require.Zero(t, p.last("slow").After)
}

func continuous(o *Config) { o.Pacing = "continuous" }

// 20. DESIGN: "an agent is launched as soon as it has something new to look at; an
// agent whose own answer is the only news waits, but only while another agent is
// running or launchable".
func TestRule20_News(t *testing.T) {
	t.Parallel()
	p := start(teamWith(continuous, "a", "b", "slow"))
	require.Empty(t, launches(p.batch(p.answer("a"))), "its own answer is no news")
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.answer("b"))), "b's is to a, a's is to b")
	require.Empty(t, launches(p.batch(p.vote("a", "b"))), "a has seen everything")
	require.Empty(t, launches(p.batch(p.exhaust("b"))), "so has b, though it has not acted")
	require.Equal(t, []string{"a"}, launched(p.batch(Said{Agent: "a", Text: "sure?"})), "a message is news")
	require.Empty(t, launches(p.batch(p.vote("a", "b"))))
	require.Equal(t, []string{"b"}, launched(p.batch(p.fail("slow"))), "nobody works any more: b continues without news")
}

// 20. A first step counts as news in every attempt, and does not wait for agents with more news.
func TestRule20_FirstStepsOfAnAttempt(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(func(o *Config) { o.Pacing, o.MaxRestarts = "continuous", 1 }, "a", "b"))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(Said{Agent: "a", Text: "for you"})))
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.vote("a", "a"), p.vote("b", "a"))
	p.batch(Said{Agent: "b", Text: "for you"})
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.evaluate("a", true))))
}

// 20. An answer that was injected into a step is not news for the next one.
func TestRule20_InjectedAnswersAreNotNews(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Pacing, o.Updates = "continuous", Inject }, "a", "b", "slow"))
	p.batch(p.answer("b"))
	vote := p.vote("a", "b").(Voted)
	vote.Seen, vote.Heard = p.witnessed(vote.Launch)
	require.Empty(t, launches(p.batch(vote)), "a has seen agent2.2 and voted on it")

	p = start(teamWith(continuous, "a", "slow"))
	p.batch(Said{Text: "be brief"})
	first := p.answer("a").(Answered)
	first.Seen, first.Heard = p.witnessed(first.Launch)
	require.Empty(t, launches(p.batch(first)), "a has received it")
}

// 20. An agent with news is launched together with resumed steps.
func TestRule20_LaunchedWithResumedSteps(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(continuous, "a", "b", "c"))
	p.batch(p.vote("a", "a"))
	p.batch(Pause{})
	p.batch(p.answer("b"), p.suspend("c"))
	commands := p.batch(Resume{})
	require.Equal(t, []string{"a", "c"}, launched(commands), "a's vote is stale, c resumes; b waits")
	require.Empty(t, p.last("a").ResumeFrom)
	require.NotEmpty(t, p.last("c").ResumeFrom)
}

// 21. DESIGN: with restart "the step ends at its next safe point and is launched again"; suspended
// steps are resumed. Neither waits for other agents, with any pacing.
func TestRule21_GoesOnAtOnce(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Updates = Restart }, "a", "b", "c"))
	p.batch(p.answer("b"))
	l := theLaunch(t, p.batch(p.restart("a")))
	require.Equal(t, 2, l.Round)
	require.Equal(t, "agent2.2", l.Shown[1].Label)
	require.Empty(t, l.ResumeFrom, "it begins again")

	l = theLaunch(t, p.batch(p.suspend("c")))
	require.Equal(t, 2, l.Round)
	require.Equal(t, "agent2.1", l.Shown[1].Label, "a resumed step is shown the same answers")
	require.NotEmpty(t, l.ResumeFrom)
	require.Equal(t, 2, p.state.View().Round)
}

// race plays a team whose agents have different speeds. Each agent answers, the author answers a
// second time, and then all vote for its latest answer. It returns the launches, which are the paid
// steps, and the time.
func race(t *testing.T, pacing string, speed map[string]int) (calls map[string]int, took int) {
	t.Helper()
	const author = "c"
	p := newPlayer(teamWith(func(o *Config) { o.Pacing = pacing }, "a", "b", author))
	calls = map[string]int{}
	ends := map[string]int{} // when the running step of an agent ends
	now := 0
	begin := func(commands []Command) {
		for _, l := range launches(commands) {
			calls[l.Agent]++
			ends[l.Agent] = now + speed[l.Agent]
		}
	}
	begin(p.drain())
	for !p.state.Done() {
		now = slices.Min(slices.Collect(maps.Values(ends)))
		for _, id := range p.state.Config.Agents {
			if ends[id] != now {
				continue
			}
			delete(ends, id)
			if own := p.state.View().Agents[p.last(id).Number-1].Answers; own == 0 || id == author && own == 1 {
				p.step(p.answer(id))
				continue
			}
			p.step(p.vote(id, latestOf(p.last(id).Shown, author)))
		}
		begin(p.drain())
	}
	require.Equal(t, Consensus, p.state.Decision().Status)
	require.Equal(t, "agent3.2", p.state.Decision().WinnerLabel)
	return calls, now
}

// latestOf returns author if it has an answer, and otherwise the first agent that has one.
func latestOf(shown []Shown, author string) string {
	if slices.ContainsFunc(shown, func(n Shown) bool { return n.Agent == author }) {
		return author
	}
	return shown[0].Agent
}

// 18, 20. DESIGN: "Never restart an agent that has nothing new to see: tests count model calls."
// Agents with equal speeds cost the same with both pacings. With continuous pacing a slow voter
// runs once, whereas a slow author costs each of the others a vote on earlier answers.
func TestRule20_LaunchesOfBothPacings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		speed              map[string]int
		rounds, continuous map[string]int
		roundsTook, took   int
	}{
		"equally fast": {
			speed:  map[string]int{"a": 2, "b": 2, "c": 2},
			rounds: map[string]int{"a": 3, "b": 3, "c": 3}, roundsTook: 6,
			continuous: map[string]int{"a": 3, "b": 3, "c": 3}, took: 8, // c has seen all, and waits for a and b to agree
		},
		"a slow voter": {
			speed:  map[string]int{"a": 2, "b": 10, "c": 2},
			rounds: map[string]int{"a": 3, "b": 3, "c": 3}, roundsTook: 30,
			continuous: map[string]int{"a": 4, "b": 2, "c": 3}, took: 20,
		},
		"a slow author": {
			speed:  map[string]int{"a": 2, "b": 3, "c": 10},
			rounds: map[string]int{"a": 3, "b": 3, "c": 3}, roundsTook: 30,
			continuous: map[string]int{"a": 4, "b": 4, "c": 3}, took: 33, // c waits for the votes on its second answer
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, took := race(t, "rounds", test.speed)
			require.Equal(t, test.rounds, calls)
			require.Equal(t, test.roundsTook, took)
			calls, took = race(t, "continuous", test.speed)
			require.Equal(t, test.continuous, calls)
			require.Equal(t, test.took, took)
		})
	}
}

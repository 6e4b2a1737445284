package coordination

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// 49. DESIGN: "Results already waiting are stepped as one batch before draining": agent
// c's answer and the votes that it makes stale lead to one wave.
func TestRule49_Batch(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	commands := p.batch(p.vote("a", "b"), p.answer("c"), p.vote("b", "b"))
	require.Len(t, launches(commands), 3)
	require.Len(t, only[Record](commands), 3)
}

// 49. Two first answers at the same moment are news to each other at once.
func TestRule49_BatchWithContinuousPacing(t *testing.T) {
	t.Parallel()
	p := start(teamWith(continuous, "a", "b", "slow"))
	commands := p.batch(p.answer("a"), p.answer("b"))
	require.Equal(t, []string{"a", "b"}, launched(commands))
	for _, l := range launches(commands) {
		require.Len(t, l.Shown, 2)
	}
}

// 50. DESIGN: "the workflow ... carries out the commands": first records in ledger order, then a
// ring, then launches or cancels, and Done last.
func TestRule50_DrainOrder(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b", "c"))
	require.Empty(t, p.drain())
	commands := p.batch(p.answer("b"), p.answer("a"), Finish{})
	require.Equal(t, 1, commands[0].(Record).Entry.Seq)
	require.Equal(t, 2, commands[1].(Record).Entry.Seq)
	require.Equal(t, Ending, commands[2].(Ring).Directive)
	require.Equal(t, Cancel{ID: "l3"}, commands[3])
	require.IsType(t, Done{}, commands[4])
	require.Len(t, commands, 5)
	require.Empty(t, p.drain())
}

// 50. Launches are in configured order, including those of resumed steps.
func TestRule50_LaunchesInConfiguredOrder(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Pacing, o.Updates = "continuous", Restart }, "d", "a", "c", "b"))
	p.batch(p.vote("d", "a"), p.vote("c", "a"))
	commands := p.batch(p.answer("b"), p.restart("a"), Said{Text: "go on"})
	require.Equal(t, NewAnswer, commands[0].(Record).Entry.Action)
	require.Equal(t, Say, commands[1].(Record).Entry.Action)
	require.Equal(t, []string{"d", "a", "c", "b"}, launched(commands))
	require.Empty(t, only[Ring](commands), "all its recipients are launched with it")
	require.Len(t, commands, 6)
}

// 50. A step is cancelled only once.
func TestRule50_CancelledOnce(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	require.Len(t, only[Cancel](p.batch(Pause{})), 2)
	require.Empty(t, only[Cancel](p.drain()))
	require.Empty(t, only[Cancel](p.batch(Finish{})), "a suspended step is ended already")
}

// 51. DESIGN: "State is plain data: it is the query result, the continue-as-new payload and what
// property tests drive." A session that uses every feature is restored from JSON before each event.
func TestRule51_SurvivesJSON(t *testing.T) {
	t.Parallel()
	lead := 1
	config := teamWith(func(o *Config) {
		o.Pacing, o.Updates, o.UpdatesPerStep, o.LeadCap, o.MaxRestarts = "continuous", Inject, 2, &lead, 1
		o.Strategy, o.OnAgentFailure, o.Budget.Tokens = synthesize, "park", 100000
	}, "a", "b", "c")
	p := start(config)
	play := func(events ...Event) {
		twin := &State{}
		require.NoError(t, json.Unmarshal([]byte(marshal(t, p.state)), twin))
		for _, e := range events {
			p.step(e)
			twin.Step(e)
		}
		require.Equal(t, p.drain(), twin.Drain())
		require.Equal(t, marshal(t, p.state), marshal(t, twin))
	}
	play(p.answer("a"), p.answer("b"))
	play(p.fail("c"))
	play(Retry{}, Said{Agent: "c", Text: "once more"})
	play(p.answer("c"))
	play(TimeShort{})
	play(Pause{})
	play(p.suspend("a"), p.suspend("b"), p.suspend("c"))
	play(Resume{})
	play(p.answer("b"))
	play(p.restart("a"), p.vote("c", "b"))
	for range 5 { // all vote for b, which presents and rejects its answer
		for _, id := range config.Agents {
			play(map[Purpose]Event{
				Coordinate: p.vote(id, "b"), Present: p.answer(id), Evaluate: p.evaluate(id, true),
			}[p.last(id).Purpose])
		}
	}
	require.Equal(t, 2, p.state.View().Attempt)
	play(p.answer("a"), p.answer("b"), p.answer("c"))
	play(Finish{})
	require.True(t, p.state.Done())
}

// 52. DESIGN, quiescence: "when nothing runs, nothing may be launched and the session is neither
// paused nor parked, the core decides in that same Drain". A session of agents that never do
// anything useful ends within the bound.
func TestRule52_SessionsEnd(t *testing.T) {
	t.Parallel()
	none := 0
	for name, set := range map[string]func(*Config){
		"rounds":        func(*Config) {},
		"continuous":    continuous,
		"deferred":      func(o *Config) { o.DeferVoting = true },
		"skip_voting":   func(o *Config) { o.SkipVoting = true },
		"decomposition": decomposed,
		"everything": func(o *Config) {
			o.Pacing, o.LeadCap, o.DeferVoting, o.AnswersPerAgent = "continuous", &none, true, 1
			o.Strategy, o.MaxRestarts = synthesize, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := team("a", "b", "c")
			config.MaxStepsPerAgent = 0 // the default
			set(&config)
			p := start(config)
			for !p.state.Done() {
				p.batch(p.vote("a", "b"), p.exhaust("b"), p.restart("c"))
			}
			require.Len(t, p.launches, 3*12)
			require.Equal(t, FailedAll, p.state.Decision().Status)
		})
	}
}

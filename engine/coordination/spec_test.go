package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// Tests named TestRuleNN_… follow the numbered rules of the package comment. Each quotes the
// sentence that it verifies, from seed 000 (step mode), 001 (coordination workflow), 003 (preempt
// with injection), or the project's design.

func team(ids ...string) Config {
	return Config{Agents: ids, OnSplit: splitRevote, MaxRevotes: 1, MaxStepsPerAgent: 12}
}

// teamWith returns a team with changed settings.
func teamWith(set func(*Config), ids ...string) Config {
	config := team(ids...)
	set(&config)
	return config
}

// answered plays a session until every agent has answered once, in the given order.
func answered(config Config) *player {
	p := start(config)
	for _, id := range config.Agents {
		p.step(p.answer(id))
	}
	p.drain()
	return p
}

// decision returns the decision among the commands, without its support, which is tested
// separately.
func decision(t *testing.T, commands []Command) Decision {
	t.Helper()
	done := only[Done](commands)
	require.Len(t, done, 1, "expected a decision")
	d := done[0].Decision
	d.Support = nil
	return d
}

func launched(commands []Command) []string {
	ids := []string{}
	for _, l := range launches(commands) {
		ids = append(ids, l.Agent)
	}
	return ids
}

// theLaunch returns the only launch among the commands.
func theLaunch(t *testing.T, commands []Command) Launch {
	t.Helper()
	require.Len(t, launches(commands), 1)
	return launches(commands)[0]
}

// 1. Seed 000: "MassGen's coordination tracker further remaps these to anonymous
// labels: agent1.1 (agent 1, answer revision 1), agent2.1". DESIGN: "Anonymous
// number = position of the agent ID in sorted order".
func TestRule01_LabelsComeFromByteOrder(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("b", "a_", "a", "a1"))
	numbers := map[string]int{}
	for _, l := range launches(p.drain()) {
		numbers[l.Agent] = l.Number
	}
	require.Equal(t, map[string]int{"a": 1, "a1": 2, "a_": 3, "b": 4}, numbers)

	p.batch(p.answer("b"), p.answer("a_"), p.answer("a"), p.answer("a1"))
	commands := p.batch(p.answer("b"))
	require.Equal(t, "agent4.2", only[Record](commands)[0].Entry.Label)
}

// 1. Seed 001: "versioned answer labels (agentN.M) and final labels (agentN.final)".
func TestRule01_FinalLabel(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.SkipVoting, o.Strategy = true, synthesize }, "b", "a"))
	commands := p.batch(p.answer("b"))
	require.Equal(t, "agent2.final", only[Record](commands)[0].Entry.Label)
	require.Equal(t, &Shown{Agent: "b", Number: 2, Label: "agent2.final", Step: 2}, decision(t, commands).Final)
}

// 2. DESIGN: "A failed agent's vote is void; its accepted answer stays electable."
func TestRule02_FailedAgentIsOut(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c"))
	require.Equal(t, []string{"a", "b", "c"}, launched(p.batch(p.answer("a"), p.vote("b", "c"), p.vote("c", "c"))))
	require.Equal(t, []string{}, launched(p.batch(p.fail("c"))))
	require.Nil(t, p.state.View().Agents[2].Vote)
	require.Equal(t, "failed", p.state.View().Agents[2].Status)
	d := decision(t, p.batch(p.vote("a", "c"), p.vote("b", "c")))
	require.Equal(t, Decision{Status: Consensus, Winner: "c", WinnerLabel: "agent3.1", WinnerStep: 1, Votes: []count{{Target: "c", Votes: 2}}, Voters: []string{"a", "b"}}, d)
}

// 2. The stop of a failed agent is also void.
func TestRule02_FailureVoidsAStop(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(decomposed, "a", "b"))
	p.batch(p.stop("a", Complete), p.answer("b"))
	p.batch(p.fail("a"))
	require.Nil(t, p.state.View().Agents[0].Stop)
	require.Equal(t, "failed", p.state.View().Agents[0].Status)
}

func decomposed(o *Config) { o.Mode = Decomposition }

// 3. DESIGN: "The core mints a launch ID for every launch". The first event that names a running
// launch ends it; all others are recorded and change nothing.
func TestRule03_EventsOfUnknownLaunchesChangeNothing(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]Event{
		"never launched":      Answered{End: End{Launch: "l99", Step: 7}},
		"no launch":           Voted{End: End{Step: 7}, Choice: Choice{Target: "a"}},
		"already ended":       Failed{End: End{Launch: "l1", Step: 7, Usage: llm.Usage{ModelCalls: 1}}},
		"stop of nobody":      Stopped{End: End{Launch: "l0", Step: 7}},
		"suspended already":   Suspended{End: End{Launch: "l1", Step: 7}, Token: "t"},
		"restarted already":   Restarted{End: End{Launch: "l1", Step: 7}},
		"exhausted already":   Exhausted{End: End{Launch: "l1", Step: 7, Usage: llm.Usage{ModelCalls: 1}}},
		"judged by nobody":    Evaluated{End: End{Launch: "l1", Step: 7}, Again: true},
		"nil":                 nil,
		"pointer":             &Finish{},
		"a launch's ID alone": Answered{End: End{Launch: "a", Step: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(team("a", "b"))
			p.batch(p.answer("a"))
			before := p.state.View()
			require.Empty(t, p.batch(event))
			after := p.state.View()
			require.Equal(t, before.Events+1, after.Events)
			after.Events = before.Events
			require.Equal(t, before, after)
			last := p.state.Timeline()[after.Events]
			require.Equal(t, "ignored", last.Kind)
		})
	}
}

// 4. Seed 000: "the running agent sees ALL prior answers from the session dir, including its own
// prior answer". DESIGN: "Agents see all answers, their own too, under labels, with no mark on
// their own". This includes the answers of failed agents.
func TestRule04_Shown(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("z", "b", "a"))
	for _, l := range launches(p.drain()) {
		require.Empty(t, l.Shown)
		require.Equal(t, []Action{NewAnswer}, l.Offered, "with nothing to see, an answer of its own")
	}
	p.batch(p.answer("z"), p.fail("b"), p.answer("a"))
	third := launches(p.batch(p.answer("z"), p.vote("a", "a")))
	require.Len(t, third, 2)
	for _, l := range third {
		require.Equal(t, []Action{NewAnswer, Vote}, l.Offered)
		require.Equal(t, []Shown{
			{Agent: "a", Number: 1, Label: "agent1.1", Step: 1, Seq: 2},
			{Agent: "z", Number: 3, Label: "agent3.2", Step: 2, Seq: 3},
		}, l.Shown)
	}
	p.batch(p.fail("a"), p.answer("z"))
	require.Len(t, p.last("z").Shown, 2, "a failed agent's answer is still shown")
}

// 4. Seed 001: "Non-peer runtime payloads can also inject: runtime human input."
func TestRule04_MessagesToTheAgent(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("a", "b"))
	p.batch(Said{Text: "for all"}, Said{Agent: "b", Text: "for b"})
	require.Equal(t, []Message{{Number: 1}}, p.last("a").Messages)
	require.Equal(t, []Message{{Number: 1}, {Number: 2, Agent: "b"}}, p.last("b").Messages)
}

// 5. Seed 000: "Append-only: Each step creates a new numbered directory. No overwrites." A launch
// gets a number above that of the agent's last finished step; numbers may be skipped.
func TestRule05_After(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	require.Equal(t, 4, theLaunch(t, p.batch(Answered{End: End{Launch: "l1", Step: 4}})).After)
	require.Equal(t, 6, theLaunch(t, p.batch(Voted{End: End{Launch: "l2", Step: 6}, Choice: Choice{Target: "nobody"}})).After, "also after a step without an accepted action")
	require.Equal(t, 7, theLaunch(t, p.batch(Suspended{End: End{Launch: "l3", Step: 7}})).After, "or that was suspended")
	require.Equal(t, 7, theLaunch(t, p.batch(Suspended{End: End{Launch: "l4"}})).After, "but not if it never had a number")
}

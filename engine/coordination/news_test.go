package coordination

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func injecting(o *Config) { o.Updates = Inject }

// 22. Seed 003: "When an agent provides a new answer, inject that information into other agents'
// ongoing work instead of restarting them." The bell tells their steps.
func TestRule22_RingsForAnAnswer(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(injecting, "b", "a", "c"))
	require.Equal(t, []Ring{{Epoch: 1, Answers: []Shown{
		{Agent: "a", Number: 1, Label: "agent1.1", Step: 1, Seq: 2},
		{Agent: "b", Number: 2, Label: "agent2.1", Step: 1, Seq: 1},
		{Agent: "c", Number: 3, Label: "agent3.2", Step: 2, Seq: 4},
	}}}, only[Ring](p.batch(p.answer("c"))))
}

// 22. Seed 003, multiple rapid updates: "Batch multiple updates into one message."
func TestRule22_OneRingForABatch(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(injecting, "a", "b", "c"))
	bells := only[Ring](p.batch(p.answer("b"), p.answer("c"), Said{Text: "hurry"}))
	require.Len(t, bells, 1)
	require.Equal(t, "agent3.2", bells[0].Answers[2].Label)
	require.Equal(t, []Message{{Number: 1}}, bells[0].Messages)
	require.Empty(t, only[Ring](p.drain()), "the bell rings once for each answer")
}

// 22. DESIGN: the doorbell costs "one event per change". It does not ring unless there is news for
// a running step.
func TestRule22_NoRingWithoutNews(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(*Config)
		play func(p *player) []Command
	}{
		"updates are switched off": {set: func(*Config) {}, play: func(p *player) []Command { return p.batch(p.answer("b")) }},
		"nobody else works": {set: injecting, play: func(p *player) []Command {
			p.batch(p.vote("a", "a"), p.vote("c", "a"))
			return p.batch(p.answer("b"))
		}},
		"the others are launched with it": {set: func(o *Config) { o.Updates, o.Pacing = Inject, "continuous" }, play: func(p *player) []Command {
			p.batch(p.vote("a", "a"), p.vote("c", "a"))
			return p.batch(p.answer("b"))
		}},
		"a vote":       {set: injecting, play: func(p *player) []Command { return p.batch(p.vote("b", "a")) }},
		"a failure":    {set: injecting, play: func(p *player) []Command { return p.batch(p.fail("b")) }},
		"not accepted": {set: injecting, play: func(p *player) []Command { return p.batch(Answered{End: End{Launch: p.latest["b"], Step: 1}}) }},
		"for one who rests": {set: injecting, play: func(p *player) []Command {
			p.batch(p.vote("a", "a"))
			return p.batch(Said{Agent: "a", Text: "psst"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(teamWith(test.set, "a", "b", "c"))
			require.Empty(t, only[Ring](test.play(p)))
		})
	}
}

// 22. Seed 001: "soft timeout: injects wrap-up guidance"; DESIGN: "when a session's
// cost, tokens, steps or time run out, ... running steps are wrapped up".
func TestRule22_Directives(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b"))
	directive := func(events ...Event) []Directive {
		var all []Directive
		for _, b := range only[Ring](p.batch(events...)) {
			all = append(all, b.Directive)
		}
		return all
	}
	require.Equal(t, []Directive{WrapUp}, directive(TimeShort{}))
	require.Empty(t, directive(TimeShort{}), "it is asked once")
	require.Equal(t, []Directive{Pausing}, directive(Pause{}))
	require.Empty(t, directive(p.suspend("a"), p.suspend("b")))
	require.Equal(t, []Directive{WrapUp}, directive(Resume{}), "a resumed step finds the present directive")
	require.Equal(t, []Directive{Ending}, directive(TimeUp{}))
}

// 22. Without a running step there is no ring.
func TestRule22_NoRingWithoutARunningStep(t *testing.T) {
	t.Parallel()
	p := newPlayer(team("a"))
	require.Empty(t, only[Ring](p.batch(Pause{})))
	require.Empty(t, only[Ring](p.batch(Finish{})))
}

// 23. These updates may reach a running step.
func TestRule23_Updates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  func(*Config)
		want Updates
	}{
		// Seed 001: "disable_injection: true bypasses peer-answer propagation".
		"disabled": {set: func(*Config) {}, want: Updates{}},
		"inject":   {set: injecting, want: Updates{Mode: Inject}},
		"restart":  {set: func(o *Config) { o.Updates = Restart }, want: Updates{Mode: Restart}},
		// "max_midstream_injections_per_round caps unseen-update fanout per round."
		"capped": {set: func(o *Config) { o.Updates, o.UpdatesPerStep = Inject, 2 }, want: Updates{Mode: Inject, Most: 2}},
		// "defer_peer_updates_until_restart: true queues peer answer updates for the next
		// restart instead of delivering them mid-stream."
		"deferred": {set: func(o *Config) { o.Updates, o.DeferUpdates = Inject, true }, want: Updates{}},
		// "allow_midstream_peer_updates_before_checklist_submit: true keeps mid-stream peer
		// updates enabled until the first accepted submit_checklist".
		"up to the checklist": {
			set:  func(o *Config) { o.Updates, o.DeferUpdates, o.BeforeChecklist = Inject, true, true },
			want: Updates{Mode: Inject, UntilChecklist: true},
		},
		"not deferred, so never mind the checklist": {
			set:  func(o *Config) { o.Updates, o.BeforeChecklist = Inject, true },
			want: Updates{Mode: Inject},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(teamWith(test.set, "a", "b"))
			// "First-Answer Diversity Protection: if an agent has not produced a first answer
			// yet, peer-answer restart/injection is deferred."
			require.Zero(t, p.last("a").Updates)
			p.batch(p.answer("a"), p.exhaust("b"))
			require.Equal(t, test.want, p.last("a").Updates)
			require.Zero(t, p.last("b").Updates, "b still has no answer")
			require.Len(t, p.last("b").Shown, 1, "though it sees a's with its next step")
		})
	}
}

// 23. Seed 001: "Non-peer runtime payloads can also inject: runtime human input". Messages reach
// every step, with every setting and also before an agent's first answer.
func TestRule23_MessagesReachEveryStep(t *testing.T) {
	t.Parallel()
	p := start(team("a", "b"))
	bells := only[Ring](p.batch(Said{Agent: "b", Text: "in French, please"}))
	require.Len(t, bells, 1)
	require.Equal(t, []Message{{Number: 1, Agent: "b"}}, bells[0].Messages)
}

// 24. Seed 001: "vote-only mode forces restart instead of mid-stream injection so vote options/tool
// schema refresh correctly". A restart for news does not count as a step.
func TestRule24_RestartForNewsIsFree(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Updates, o.MaxStepsPerAgent = Restart, 3 }, "a", "b"))
	p.batch(p.answer("b"))
	l := theLaunch(t, p.batch(p.restart("a")))
	require.Equal(t, 2, l.After, "its number is used up")
	require.Equal(t, "agent2.2", l.Shown[1].Label)
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.exhaust("a"))), "a has a third step left: the restart was none")
	require.Equal(t, Consensus, decision(t, p.batch(p.vote("a", "b"), p.vote("b", "b"))).Status)
}

// 24. Seed 003, success criteria: "No infinite loops (existing limits apply)". A restart without
// news counts as a step that ended without an action.
func TestRule24_RestartsAreBounded(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Updates = Restart }, "a", "b"))
	for !p.state.Done() {
		p.batch(p.restart("a"), p.restart("b"))
	}
	require.Len(t, p.launches, 2*12)
	require.Equal(t, Limit, p.state.Decision().Status)
}

// 24. An agent's own answer is not news, so that an answer of another agent restarts a step at most
// once.
func TestRule24_OneRestartForOneAnswer(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Updates, o.MaxStepsPerAgent = Restart, 3 }, "a", "b"))
	p.batch(p.answer("b"))
	p.batch(p.restart("a"))
	require.Equal(t, []string{"a", "b"}, launched(p.batch(p.restart("a"))), "the round is over: this one counted")
	require.Equal(t, 3, p.last("a").Round)
}

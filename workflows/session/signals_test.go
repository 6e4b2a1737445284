package session_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
	"conclave/workflows/session"
)

// sent is a signal that somebody sends.
type sent struct {
	name  string
	input any
}

// words returns signals without an input.
func words(names ...string) []sent {
	var list []sent
	for _, name := range names {
		list = append(list, sent{name: name})
	}
	return list
}

// send delivers signals in one workflow task.
func (p *play) send(signals ...sent) {
	for i, s := range signals {
		if i < len(signals)-1 {
			p.SignalWorkflowSkippingWorkflowTask(s.name, s.input)
			continue
		}
		p.SignalWorkflow(s.name, s.input)
	}
}

// idle is a team of two whose steps run until they are cancelled.
func idle() map[string][]outcome {
	return map[string][]outcome{"agent_a": slices.Repeat([]outcome{hangs()}, 40), "agent_b": slices.Repeat([]outcome{hangs()}, 40)}
}

// Signals are taken in the order of arrival, whenever they arrive: with the start, while the session is prepared,
// and later.
func TestSignals_inOneTask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signals []sent
		paused  bool
	}{
		"pause, resume":                {words("pause", "resume"), false},
		"resume, pause":                {words("resume", "pause"), true},
		"pause, resume, pause":         {words("pause", "resume", "pause"), true},
		"pause, pause, resume":         {words("pause", "pause", "resume"), false},
		"pause, resume, pause, resume": {words("pause", "resume", "pause", "resume"), false},
	} {
		for moment, deliver := range map[string]func(p *play){
			"with the start":  func(p *play) { p.at(0, func() { p.send(tt.signals...) }) },
			"while preparing": func(p *play) { p.preparing = func() { p.send(tt.signals...) } },
			"while it runs":   func(p *play) { p.at(10, func() { p.send(tt.signals...) }) },
		} {
			t.Run(name+" "+moment, func(t *testing.T) {
				t.Parallel()
				p := newPlay(coordination.Config{}, idle())
				deliver(p)
				p.at(20, func() {
					require.Equal(t, tt.paused, p.state(t).Paused)
					require.Equal(t, !tt.paused, p.state(t).Agents[0].Running)
					p.SignalWorkflow(workflows.FinishSignal, nil)
				})
				p.run(t)
			})
		}
	}
}

// A message that follows a pause is one to a paused session, and what follows the end is ignored.
func TestSignals_afterTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, idle())
	p.at(10, func() {
		p.send(sent{workflows.SaySignal, workflows.Request{Text: "Hurry."}}, sent{name: workflows.FinishSignal}, sent{workflows.SaySignal, workflows.Request{Text: "Wait!"}})
	})
	p.run(t)
	require.Equal(t, 1, p.state(t).Messages)
}

// A sequence of signals has the same effects in one workflow task as in several.
func TestSignals_tasksDoNotMatter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(seed, 7))
			signals := sequence(chance)
			want := effects(t, signals, func(int) bool { return true })
			require.Equal(t, want, effects(t, signals, func(int) bool { return false }), "in one task: %v", signals)
			require.Equal(t, want, effects(t, signals, func(int) bool { return chance.IntN(2) == 0 }), "in some: %v", signals)
		})
	}
}

// sequence returns signals of all kinds, now and then one that cannot be read. One in three ends with requests that
// follow a finish.
func sequence(chance *rand.Rand) []sent {
	kinds := []func(n int) sent{
		func(int) sent { return sent{name: workflows.PauseSignal} },
		func(int) sent { return sent{name: workflows.ResumeSignal} },
		func(n int) sent { return sent{workflows.SaySignal, workflows.Request{Text: fmt.Sprint("message ", n)}} },
		func(n int) sent {
			return sent{workflows.SaySignal, workflows.Request{Text: fmt.Sprint("note ", n), Agent: "agent_b"}}
		},
		func(int) sent { return sent{workflows.SaySignal, map[string]any{"txet": "unread"}} },
		func(int) sent { return sent{workflows.RetrySignal, workflows.Request{Agent: "agent_c"}} },
		func(int) sent { return sent{name: workflows.RetrySignal} },
		func(int) sent {
			return sent{workflows.ToolResultsSignal, workflows.Request{Results: []coordination.ToolResult{{ID: "c1", Content: "x"}}}}
		},
		func(int) sent { return sent{"unknown", 5} },
	}
	var signals []sent
	for n := range 10 {
		signals = append(signals, kinds[chance.IntN(len(kinds))](n))
	}
	if chance.IntN(3) == 0 {
		signals = append(signals, words(workflows.FinishSignal, workflows.PauseSignal, workflows.RetrySignal)...)
		signals = append(signals, sent{workflows.SaySignal, workflows.Request{Text: "too late"}})
	}
	return signals
}

// effects plays signals, each in the task of the one before unless apart says otherwise, and returns their
// traces in the timeline and in the state. One of three agents has failed before.
func effects(t *testing.T, signals []sent, apart func(n int) bool) []string {
	t.Helper()
	scripts := idle()
	scripts["agent_c"] = slices.Concat([]outcome{fails("AuthFailed", "tok")}, slices.Repeat([]outcome{hangs()}, 40))
	p := newPlay(coordination.Config{}, scripts)
	second, batch := 10, []sent(nil)
	for n, s := range signals {
		batch = append(batch, s)
		if n == len(signals)-1 || apart(n) {
			now := batch
			p.RegisterDelayedCallback(func() { p.send(now...) }, time.Duration(second)*time.Second)
			second, batch = second+10, nil
		}
	}
	var traces []string
	p.RegisterDelayedCallback(func() { traces = p.requests(t); p.CancelWorkflow() }, 500*time.Second)
	p.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	if traces == nil { // a finish ended the session before
		traces = p.requests(t)
	}
	return traces
}

// requests returns the traces of people's requests in the state and in the timeline.
func (p *play) requests(t *testing.T) []string {
	t.Helper()
	s := p.state(t)
	traces := []string{fmt.Sprintf("paused %v, %d messages, agent_c failed %v, status %s, ignored %q", s.Paused, s.Messages, s.Agents[2].Error != nil, s.Status, s.Ignored)}
	value, err := p.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var entries []coordination.Entry
	require.NoError(t, value.Get(&entries))
	for _, e := range entries {
		if strings.Contains(e.Text, "asked for already") || e.Kind == "decided" {
			return append(traces, "decided") // later signals are no longer read, or are refused
		}
		if slices.Contains([]string{"said", "paused", "resumed", "retried", "ignored"}, e.Kind) {
			traces = append(traces, e.Text+" "+e.Reason)
		}
	}
	return traces
}

// An update finds the state that the signals of its workflow task have made.
func TestSignals_beforeUpdates(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, idle())
	together := func(signals []sent, update func()) {
		for _, s := range signals {
			p.SignalWorkflowSkippingWorkflowTask(s.name, s.input)
		}
		update()
	}
	p.at(10, func() {
		together(words(workflows.PauseSignal), func() {
			p.asks(t, workflows.ResumeSignal, nil, func(s acts.State) { require.False(t, s.Paused) })
		})
	})
	p.at(20, func() {
		together(words(workflows.PauseSignal), func() { p.isRefused(t, workflows.PauseSignal, nil, "paused already") })
	})
	p.at(30, func() {
		together(words(workflows.ResumeSignal, workflows.PauseSignal, workflows.ResumeSignal), func() {
			p.asks(t, workflows.PauseSignal, nil, func(s acts.State) { require.True(t, s.Paused) })
			p.isRefused(t, workflows.PauseSignal, nil, "paused already")
		})
	})
	p.at(40, func() {
		require.True(t, p.state(t).Paused)
		together(words(workflows.FinishSignal), func() {
			p.isRefused(t, workflows.SaySignal, workflows.Request{Text: "Wait!"}, "a decision was asked for already")
		})
	})
	p.run(t)
	require.Zero(t, p.state(t).Messages)
}

// What waits when a session continues as new is carried into the next run, in order and once.
func TestSignals_atContinueAsNew(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, idle())
	p.at(10, func() { p.asks(t, workflows.PauseSignal, nil, nil) })
	p.at(20, func() {
		p.recording = func(acts.RecordInput) { // the last record of the run
			for _, s := range []sent{
				{name: workflows.ResumeSignal},
				{workflows.SaySignal, workflows.Request{Text: "One."}},
				{workflows.SaySignal, "unread"},
				{"unknown", 1},
				{name: workflows.PauseSignal},
				{workflows.SaySignal, workflows.Request{Text: "Two."}},
				{name: workflows.ResumeSignal},
			} {
				p.SignalWorkflowSkippingWorkflowTask(s.name, s.input)
			}
		}
		p.SetContinueAsNewSuggested(true)
		p.asks(t, workflows.SaySignal, workflows.Request{Text: "Zero."}, nil)
	})
	in := p.runOn(t, session.Input{Query: "Who?", SessionID: "s1"})

	next := nextRun(p)
	next.at(10, func() {
		state := next.state(t)
		require.False(t, state.Paused)
		require.True(t, state.Agents[0].Running)
		require.Equal(t, 3, state.Messages)
		next.send(words(workflows.PauseSignal, workflows.ResumeSignal, workflows.FinishSignal)...)
	})
	require.Equal(t, "failed", next.runFrom(t, in).Status, "nobody had an answer")
	var told []string
	for _, e := range slices.Concat(p.records, next.records) {
		for _, event := range e.Events {
			if slices.Contains([]string{"said", "paused", "resumed", "ignored"}, event.Kind) && !strings.Contains(event.Text, "only its usage") {
				told = append(told, strings.TrimSpace(event.Kind+" "+event.Reason))
			}
		}
	}
	require.Equal(t, []string{
		"paused", "said Zero.", "resumed", "said One.", "ignored the input cannot be decoded: it is a string, not an object; give an object with text, agent",
		"paused", "said Two.", "resumed", "paused", "resumed",
	}, told)
}

// A cancellation takes precedence over the signals of its task, which change nothing any more.
func TestSignals_withACancellation(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, idle())
	p.at(10, func() {
		for _, s := range words(workflows.PauseSignal, workflows.ResumeSignal, workflows.FinishSignal) {
			p.SignalWorkflowSkippingWorkflowTask(s.name, s.input)
		}
		p.CancelWorkflow()
	})
	p.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.True(t, temporal.IsCanceledError(p.GetWorkflowError()))
	require.Equal(t, workflows.Cancelled, p.log.memo(workflows.MemoStatus))
}

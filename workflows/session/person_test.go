package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// duo is a team of two whose first steps run until a verb arrives.
func duo() map[string][]outcome {
	return map[string][]outcome{
		"agent_a": {hangs(), answers(), votesFor("agent_b", 2, 0)},
		"agent_b": {hangs(), answers(), votesFor("agent_b", 2, 0)},
	}
}

// runID is the run ID of every play.
const runID = "default-test-run-id"

// "Pause, finish and cancel upsert the memo and then cancel the activity in the
// same task; a step ended so is suspended: no failure, no counted step."
func TestPause(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*testing.T, *play, string){
		"update": func(t *testing.T, p *play, name string) { p.asks(t, name, nil, nil) },
		"signal": func(_ *testing.T, p *play, name string) { p.SignalWorkflow(name, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(coordination.Config{}, duo())
			p.at(10, func() { ask(t, p, workflows.PauseSignal) })
			p.at(20, func() {
				state := p.state(t)
				require.True(t, state.Paused)
				require.Equal(t, workflows.Running, state.Status)
				require.False(t, state.Agents[0].Running, "the step that ran is suspended")
				require.Nil(t, state.Agents[0].Error)
				require.Equal(t, []string{"agent_a ", "agent_b "}, p.steps(), "nothing is launched")
				require.Equal(t, workflows.Paused, p.log.memo(workflows.MemoStatus))
				require.Equal(t, true, p.log.memo(workflows.MemoPaused))
				require.True(t, p.recorded().Status.Paused, "status.json says it, too")

				last := p.log.upserts[len(p.log.upserts)-1]
				require.Equal(t, coordination.Pausing, last.values[workflows.MemoDoorbell].(coordination.Ring).Directive)
				require.Equal(t, workflows.Paused, last.values[workflows.MemoStatus], "one upsert has both")
				require.Zero(t, last.cancelled, "the bell rings before the step is cancelled")
				require.Error(t, p.log.steps[0].Err(), "and then it is")
			})
			p.at(30, func() { ask(t, p, workflows.ResumeSignal) })
			result := p.run(t)
			require.Equal(t, "consensus", result.Status)
			require.Equal(t, "agent_b", result.Winner)
			require.Equal(t, []string{
				"agent_a ", "agent_a ", "agent_a " + runID + "-l1", "agent_b ", "agent_b ", "agent_b " + runID + "-l2",
			}, p.steps(), "suspended steps resume")
			require.Empty(t, p.log.memo(workflows.MemoParked))
			require.Equal(t, false, p.log.memo(workflows.MemoPaused))
			require.Equal(t, int64(4), result.Cost.ModelCalls)
		})
	}
}

// A step of a lost worker cannot report its suspension.
func TestPause_WorkerGone(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{OnAgentFailure: "fail"}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
	})
	p.log.dead = true
	p.at(10, func() { p.asks(t, workflows.PauseSignal, nil, nil) })
	p.at(20, func() {
		require.Nil(t, p.state(t).Agents[0].Error)
		p.log.dead = false
		p.asks(t, workflows.ResumeSignal, nil, nil)
	})
	require.Equal(t, "consensus", p.run(t).Status)
	require.Equal(t, []string{"agent_a ", "agent_a " + runID + "-l1"}, p.steps())
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, duo())
	p.at(10, func() {
		p.isRefused(t, workflows.ResumeSignal, nil, "not paused")
		p.isRefused(t, workflows.RetrySignal, nil, "no agent has failed")
		p.isRefused(t, workflows.RetrySignal, workflows.Request{Agent: "agent_a"}, "has not failed")
		p.isRefused(t, workflows.SaySignal, workflows.Request{Text: " \n"}, "empty")
		p.isRefused(t, workflows.SaySignal, workflows.Request{Text: strings.Repeat("x", coordination.MaxText+1)}, "bytes")
		p.isRefused(t, workflows.SaySignal, workflows.Request{Text: "Hi.", Agent: "agent_x"}, "agent_a, agent_b")
		p.asks(t, workflows.PauseSignal, nil, nil)
		p.isRefused(t, workflows.PauseSignal, nil, "paused already")
	})
	p.at(20, func() {
		before := p.texts(t)
		p.isRefused(t, workflows.PauseSignal, nil, "paused already")
		require.Equal(t, before, p.texts(t), "a refused request changes nothing")
		p.asks(t, workflows.FinishSignal, nil, nil)
	})
	require.Equal(t, "failed", p.run(t).Status, "no agent had answered")
}

// The ledger has a message at once, and the bell tells running steps. "Human messages
// (say) are news: votes that have not seen them are stale."
func TestSay(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), hangs(), votesFor("agent_a", 1, 2)}})
	p.at(100, func() {
		p.asks(t, workflows.SaySignal, workflows.Request{Text: "Shorter, please."}, func(s acts.State) {
			require.Equal(t, 1, s.Messages)
			require.Empty(t, s.Query)
		})
		p.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "And in verse.", Agent: "agent_a"})
	})
	p.at(101, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		var said []coordination.Accepted
		for _, r := range p.records {
			for _, e := range r.Entries {
				if e.Action == coordination.Say {
					said = append(said, e)
				}
			}
		}
		require.Len(t, said, 2)
		require.Equal(t, "Shorter, please.", said[0].Text)
		require.Equal(t, 2, said[1].Message)
		bells := p.log.bells()
		require.Equal(t, []coordination.Message{{Number: 1}, {Number: 2, Agent: "agent_a"}}, bells[len(bells)-1].Messages)
	})
	p.at(110, func() { p.asks(t, workflows.PauseSignal, nil, nil) })
	p.at(120, func() { p.asks(t, workflows.ResumeSignal, nil, nil) })
	require.Equal(t, "consensus", p.run(t).Status)
}

// "A parked session says in the Web UI, in status and in its memo what it waits
// for"; "a retry is the same step".
func TestParkAndRetry(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*testing.T, *play){
		"update": func(t *testing.T, p *play) {
			p.asks(t, workflows.RetrySignal, workflows.Request{Agent: "agent_b"}, nil)
		},
		"update for all": func(t *testing.T, p *play) { p.asks(t, workflows.RetrySignal, nil, nil) },
		"signal": func(_ *testing.T, p *play) {
			p.SignalWorkflow(workflows.RetrySignal, workflows.Request{Agent: "agent_b"})
		},
		"signal for all": func(_ *testing.T, p *play) { p.SignalWorkflow(workflows.RetrySignal, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(coordination.Config{OnAgentFailure: "park"}, map[string][]outcome{
				"agent_a": {answers(), votesFor("agent_a", 1, 0)},
				"agent_b": {answers(), fails("AuthFailed", "tok-l4"), votesFor("agent_a", 1, 0)},
			})
			p.at(3*sessionTime, func() {
				state := p.state(t)
				require.NotNil(t, state.Parked)
				require.Contains(t, *state.Parked, "agent_b")
				require.Contains(t, p.log.memo(workflows.MemoParked), "AuthFailed")
				require.Equal(t, workflows.Parked, p.log.memo(workflows.MemoStatus))
				require.Contains(t, p.details(t), "`conclave retry s1`")
				require.NotNil(t, p.recorded().Status.Parked, "and so does status.json")
			})
			p.at(3*sessionTime+1, func() { ask(t, p) })
			result := p.run(t)
			require.Equal(t, "consensus", result.Status, "a parked session's time stands still")
			require.Contains(t, p.steps(), "agent_b tok-l4")
			require.Empty(t, p.log.memo(workflows.MemoParked))
		})
	}
}

func TestPark_FinishDecides(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{OnAgentFailure: "park"}, map[string][]outcome{
		"agent_a": {answers()}, "agent_b": {fails("AuthFailed", "")},
	})
	p.at(sessionTime+1, func() { p.asks(t, workflows.FinishSignal, nil, nil) })
	result := p.run(t)
	require.Equal(t, "finished", result.Status)
	require.Equal(t, "agent_a", result.Winner)
}

// "Signals that make no sense are logged and ignored."
func TestSignals_NoSense(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, duo())
	p.at(10, func() {
		p.SignalWorkflow(workflows.ResumeSignal, nil)
		p.SignalWorkflow(workflows.RetrySignal, workflows.Request{Agent: "agent_x"})
		p.SignalWorkflow(workflows.SaySignal, "not an object")
		p.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: " "})
		p.SignalWorkflow(workflows.SaySignal, nil)
		p.SignalWorkflow("dance", nil)
	})
	p.at(20, func() {
		state := p.state(t)
		require.False(t, state.Paused)
		require.Zero(t, state.Messages)
		require.Contains(t, p.texts(t), "resume ignored: the session is not paused")
		p.SignalWorkflow(workflows.FinishSignal, []string{"whatever"})
	})
	require.Equal(t, "failed", p.run(t).Status, "no agent had answered")
}

// During the preparation an update is refused and a signal waits. Waiting messages are
// not lost, and a pause that has arrived prevents the first launch.
func TestWhilePreparing(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), votesFor("agent_a", 1, 1)}})
	refused := make(chan struct{})
	p.preparing = func() {
		p.update(workflows.PauseSignal, nil, func(_ any, err error) {
			require.ErrorContains(t, err, "still being prepared")
			close(refused)
		})
		p.SignalWorkflow(workflows.ResumeSignal, nil)
		p.SignalWorkflow(workflows.PauseSignal, nil)
		p.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "In verse."})
		<-refused
	}
	p.at(10, func() {
		require.Empty(t, p.steps(), "to pause is to launch nothing")
		require.True(t, p.state(t).Paused)
		p.asks(t, workflows.ResumeSignal, nil, nil)
	})
	require.Equal(t, "consensus", p.run(t).Status)
	require.Equal(t, []coordination.Message{{Number: 1}}, p.launched[0].Messages)
}

// "Signals that make no sense are logged and ignored": an update of a decided session
// is refused, even before its last record.
func TestAfterTheDecision(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), votesFor("agent_a", 1, 0)}})
	refused := make(chan struct{})
	p.recording = func(in acts.RecordInput) {
		if in.Status.Phase == coordination.PhaseDone {
			p.update(workflows.PauseSignal, nil, func(_ any, err error) {
				require.ErrorContains(t, err, "over")
				close(refused)
			})
			<-refused
		}
	}
	require.Equal(t, "consensus", p.run(t).Status)
	<-refused
}

package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/workflows/drive"
)

// "The doorbell is a memo, one event per change": an answer that a running step
// can use is in the same upsert as whatever else changed then.
func TestDoorbell_NewAnswer(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Updates: coordination.Inject}, map[string][]outcome{
		"agent_a": {answers(), answers(), votesFor("agent_a", 1, 0)},
		"agent_b": {answers(), hangs()},
	})
	p.at(10, func() {
		bells := p.log.bells()
		require.Len(t, bells, 1)
		require.Equal(t, 1, bells[0].Epoch)
		require.Equal(t, []string{"agent1.2", "agent2.1"}, labelsOf(bells[0].Answers))
		p.asks(t, drive.FinishSignal, nil, nil)
	})
	result := p.run(t)
	require.Equal(t, "finished", result.Status)

	last := p.log.upserts[len(p.log.upserts)-1]
	require.Zero(t, last.cancelled, "what a step is told outruns its end")
	require.Equal(t, step.Ending, last.values[drive.MemoDoorbell].(step.Bell).Directive)
	require.Equal(t, "finished", last.values[drive.MemoStatus])
	require.Error(t, p.log.steps[3].Err(), "the step that ran was cancelled")
}

func labelsOf(answers []step.BellAnswer) []string {
	var list []string
	for _, shown := range answers {
		list = append(list, shown.Label)
	}
	return list
}

// A session goes on under the rules it began under: one of protocol 1 starts no
// timer and sets no memo that it did not know.
func TestProtocol1(t *testing.T) {
	t.Parallel()
	everything := coordination.Config{
		Updates: coordination.Inject, Strategy: coordination.Synthesize, OnAgentFailure: coordination.FailurePark, Pacing: coordination.Continuous,
	}
	for name, protocol := range map[string]int{"named": 1, "from before it was": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(everything, map[string][]outcome{
				"agent_a": {answers(), hangs()},
				"agent_b": {answers(), votesFor("agent_a", 1, 0)},
				"agent_c": {fails("AuthFailed", "tok")},
			})
			p.prepared.Protocol = protocol
			p.at(10, func() {
				before := len(p.log.upserts)
				for _, name := range []string{drive.PauseSignal, drive.ResumeSignal, drive.RetrySignal, drive.SaySignal} {
					p.isRefused(t, name, drive.SayInput{Text: "Hello."}, drive.Refused, "older rules")
					p.SignalWorkflow(name, drive.SayInput{Text: "Hello."})
				}
				p.at(1, func() {
					require.Len(t, p.log.upserts, before)
					require.Len(t, p.steps(), 5)
					p.asks(t, drive.FinishSignal, nil, nil)
				})
			})
			require.Equal(t, "finished", p.run(t).Status)
			for _, u := range p.log.upserts {
				require.NotContains(t, u.values, drive.MemoDoorbell)
				require.NotContains(t, u.values, drive.MemoPaused)
				require.NotContains(t, u.values, drive.MemoParked)
			}
			require.Equal(t, 1, p.log.upserts[len(p.log.upserts)-1].cancelled, "the order of its commands stays what it was")
			require.Subset(t, []string{"for cancelled steps to end", "the session's time", "until the ledger is written"}, p.log.timers)
		})
	}
}

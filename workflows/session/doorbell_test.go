package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// "The doorbell is a memo, one event per change": an answer for a running step is in
// the same upsert as every other change.
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
		p.asks(t, workflows.FinishSignal, nil, nil)
	})
	result := p.run(t)
	require.Equal(t, "finished", result.Status)

	last := p.log.upserts[len(p.log.upserts)-1]
	require.Zero(t, last.cancelled, "the bell rings before the step is cancelled")
	require.Equal(t, coordination.Ending, last.values[workflows.MemoDoorbell].(coordination.Ring).Directive)
	require.Equal(t, "finished", last.values[workflows.MemoStatus])
	require.Error(t, p.log.steps[3].Err(), "the step that ran was cancelled")
}

func labelsOf(answers []coordination.Shown) []string {
	var list []string
	for _, shown := range answers {
		list = append(list, shown.Label)
	}
	return list
}

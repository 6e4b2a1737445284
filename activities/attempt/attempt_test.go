package attempt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// Wasted replies and refusals are kept in the journal, but an attempt that ends with
// one is counted as one without progress.
func TestAttempt_wastedRepliesAndRefusalsAreNoProgress(t *testing.T) {
	t.Parallel()
	for kind, counted := range map[loop.EntryKind]bool{
		loop.Opening: false, loop.Reply: false, loop.Results: false, loop.Rejection: false, loop.Compacted: false,
		loop.Wasted: true, loop.Refused: true,
	} {
		a := &Attempt{heart: newHeart(NewSteps(), HeartbeatTimeout, details{Fruitless: 1}), counted: true}
		a.noteProgress(step.Progress{Kept: 1, Last: kind})
		require.Equal(t, counted, a.counted, kind)
		require.Equal(t, counted, a.heart.currentDetails().Fruitless == 1, kind)
	}
}

// Heartbeats have the answers that reached the step after its launch, so that the end of a
// lost attempt has them, too; the next model call is described by the update.
func TestAttempt_progressHasTheNews(t *testing.T) {
	t.Parallel()
	shown := map[string]int{"agent_a": 1}
	a := &Attempt{heart: newHeart(NewSteps(), HeartbeatTimeout, details{})}
	a.Spec.Shown.Seen = map[string]int{"agent_a": 1}
	a.Spec.Witnessed = func() (map[string]int, int) { return shown, 0 }
	a.noteProgress(step.Progress{Kept: 1, Last: loop.Reply})
	require.Nil(t, a.heart.currentDetails().Seen)
	require.Equal(t, "model call 1", a.modelCall())

	shown = map[string]int{"agent_b": 1, "agent_a": 2}
	a.noteProgress(step.Progress{Kept: 2, Last: loop.Updated})
	require.Equal(t, []coordination.Seen{{Agent: "agent_a", Step: 2}, {Agent: "agent_b", Step: 1}}, a.heart.currentDetails().Seen)
	require.Equal(t, "model call 1, after an update", a.modelCall())
}

package attempt

import (
	"testing"

	"github.com/stretchr/testify/require"

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
		a.progress(step.Progress{Kept: 1, Last: kind})
		require.Equal(t, counted, a.counted, kind)
		require.Equal(t, counted, a.heart.current().Fruitless == 1, kind)
	}
}

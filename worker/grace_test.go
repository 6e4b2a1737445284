package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command waits for the calls of other runs, whatever their names, not for those of its own.
func TestConfig_graceOf(t *testing.T) {
	t.Parallel()
	c := Config{Own: "p1", Grace: time.Second}
	for workflow, want := range map[string]time.Duration{"p1": 0, "p1-2": time.Second, "s": time.Second} {
		require.Equal(t, want, c.graceOf(workflow), workflow)
	}
	require.Zero(t, Config{}.graceOf("s"), "a worker of a cluster hands its calls over at once")
}

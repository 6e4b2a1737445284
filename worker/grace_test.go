package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command waits for the calls of other runs, not for those of its own and their child sessions.
func TestConfig_graceOf(t *testing.T) {
	t.Parallel()
	c := Config{Own: "p1", Grace: time.Second}
	for workflow, want := range map[string]time.Duration{"p1": 0, "p1-2-decide": 0, "p12": time.Second, "s": time.Second} {
		require.Equal(t, want, c.graceOf(workflow), workflow)
	}
	require.Zero(t, Config{}.graceOf("s"), "a worker of a cluster hands its calls over at once")
}

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/local"
	"conclave/engine/coordination"
)

// Open runs of another protocol keep a stack from starting, until their own version has ended them.
func TestJoin_runsOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stamp := func(protocol int) {
		file := filepath.Join(dir, "stack.json")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		content = regexp.MustCompile(`"protocol": \d+`).ReplaceAll(content, fmt.Appendf(nil, `"protocol": %d`, protocol))
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	with := func(open int64, use func(client.Client)) {
		lease, err := local.Join(t.Context(), dir, local.Options{})
		require.NoError(t, err)
		c := temporalClient(t, lease.Stack)
		use(c)
		require.Eventually(t, func() bool { // visibility is written later
			n, err := c.CountWorkflow(t.Context(), openRuns)
			return err == nil && n.GetCount() == open
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, lease.Release())
		requireGone(t, dir)
	}
	with(1, func(c client.Client) {
		_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "s1", TaskQueue: "nobody"}, "Session")
		require.NoError(t, err)
	})

	stamp(coordination.Protocol - 1)
	_, err := local.Join(t.Context(), dir, local.Options{})
	require.ErrorContains(t, err, fmt.Sprintf("has 1 open runs of another version of conclave (protocol %d, this is %d)", coordination.Protocol-1, coordination.Protocol))
	require.ErrorContains(t, err, "let that version finish or cancel them, or choose another --data-dir")
	requireGone(t, dir)

	stamp(coordination.Protocol) // as that version would
	with(0, func(c client.Client) { require.NoError(t, c.TerminateWorkflow(t.Context(), "s1", "", "the end")) })
	stamp(coordination.Protocol - 1)
	with(0, func(client.Client) {})
}

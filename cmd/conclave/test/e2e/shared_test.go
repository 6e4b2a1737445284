//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// Two workers of a cluster have half of a provider's limit each. Once one of them is killed, the other
// has all of it.
func TestLimitsOfAClusterAreShared(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const calls, perMinute = 14, 60
	model := newModelServer(t, map[string][]reply{"model-a": append(slices.Repeat([]reply{list()}, calls-1), answer("Answer A."))})
	const team = `{"agents": [{"id": "agent_a", "backend": {"provider": "house", "model": "model-a"}}],
  "orchestrator": {"skip_voting": true, "skip_final_presentation": true}}`
	start := func() *background {
		c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
			"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey,
			"TEMPORAL_ADDRESS="+s.stack.TemporalAddress)
		file := c.file("worker.yaml", fmt.Sprintf("providers: {house: {base_url: %s/v1, requests_per_minute: %d}}\n", model.URL, perMinute))
		w := c.start("worker", "--task-queue", "shared", "--bucket", s.stack.Bucket, "--worker-config", file)
		w.prints(t, "worker on the task queue")
		return w
	}
	took := func(id string) time.Duration {
		model.rewind()
		began := time.Now()
		ended(t, s.begin(t, "shared", id, sessionflow.Input{Query: "Whose share is it?", Config: []byte(team)}), "presented")
		return time.Since(began)
	}
	// A sixth of a worker's part comes at once, the rest evenly.
	least := func(workers int) time.Duration {
		part := perMinute / workers
		return time.Duration(calls-part/6) * time.Minute / time.Duration(part)
	}

	stays, dies := start(), start()
	stays.prints(t, "workers=2")
	dies.prints(t, "workers=2")
	require.Greater(t, took("by-two"), least(2)-time.Second)

	require.NoError(t, dies.Process.Kill())
	require.Eventually(t, func() bool { return strings.Contains(stays.log.String(), "workers=1") }, 5*time.Minute, 200*time.Millisecond, "the server does not forget the dead worker")
	require.Less(t, took("by-one"), least(2))
}

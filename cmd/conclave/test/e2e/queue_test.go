//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// A step that waits for a provider sends heartbeats, stays in its first attempt beyond the
// heartbeat timeout, and does not use up the time of its round.
func TestWaitingForATurn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A.")}, "model-b": {answer("Answer B.")},
		"model-c": {list(), list(), answer("Answer C.")},
	})
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
		"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey,
		"TEMPORAL_ADDRESS="+s.stack.TemporalAddress, "HOUSE_KEY="+houseKey)
	const every = 20 * time.Second
	file := c.file("worker.yaml", fmt.Sprintf("providers:\n  house: {base_url: %s, api_key_env: HOUSE_KEY, requests_per_minute: 3}\n", newHouse(t, model)))
	w := c.start("worker", "--task-queue", "queue", "--bucket", s.stack.Bucket, "--worker-config", file)
	w.prints(t, "worker on the task queue")
	team := []byte(trio[:len(trio)-1] + `, "timeout_settings": {"initial_round_timeout_seconds": 5, "round_timeout_grace_seconds": 1}}`)
	began := time.Now()
	run := s.begin(t, "queue", "queue", sessionflow.Input{Query: "Whose turn is it?", Config: team})
	require.Eventually(t, func() bool { return len(s.state("queue").Agents) == 3 }, 20*time.Second, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		state := s.state("queue")
		return state.Agents[0].Answers+state.Agents[1].Answers+state.Agents[2].Answers == 3
	}, 2*time.Minute, 200*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 4*every, "five calls")
	require.NoError(t, s.update("queue", "finish"))
	ended(t, run, "finished")

	for id, attempt := range started(s.history("queue"), "RunStep") {
		require.EqualValues(t, 1, attempt.Attempt, id)
	}
	var last struct{ Messages []struct{ Role string } }
	require.NoError(t, json.Unmarshal([]byte(model.request("model-c", 3)), &last))
	require.Equal(t, "tool", last.Messages[len(last.Messages)-1].Role, "it gets no warning about its time")
	require.Contains(t, w.log.String(), "a model call waits for its turn")
}

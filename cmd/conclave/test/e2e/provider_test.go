//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"conclave/engine/files/artifact"
	sessionflow "conclave/workflows/session"
)

const houseKey = "key-of-the-house"

// newHouse is the model server behind a key.
func newHouse(t *testing.T, m *modelServer) string {
	t.Helper()
	house := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+houseKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		m.serve(w, r)
	}))
	t.Cleanup(house.Close)
	return house.URL + "/v1"
}

// trio is a team at the provider house.
const trio = `{"agents": [
  {"id": "agent_a", "backend": {"provider": "house", "model": "model-a"}},
  {"id": "agent_b", "backend": {"provider": "house", "model": "model-b"}},
  {"id": "agent_c", "backend": {"provider": "house", "model": "model-c"}}]}`

// The worker's configuration has the addresses, keys and prices of models; sessions name providers
// and teams, but cannot define them.
func TestProvidersOfAWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	conclave := binary(t, "CONCLAVE_BIN")
	for name, tt := range map[string]struct {
		program []string
		ready   string
	}{
		"conclave":        {[]string{conclave, "worker"}, "worker on the task queue"},
		"conclave-worker": {[]string{filepath.Join(filepath.Dir(conclave), "conclave-worker")}, "msg=working"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModelServer(t, threeRounds())
			c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
				"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey,
				"TEMPORAL_ADDRESS="+s.stack.TemporalAddress, "HOUSE_KEY="+houseKey)
			file := c.file("worker.yaml", fmt.Sprintf(`
providers:
  house:
    base_url: %s
    api_key_env: HOUSE_KEY
    params: {seed: 7}
    price_per_million: {input: 10, output: 100}
    requests_per_minute: 60000
    tokens_per_minute: 60000000
teams:
  trio: %s
max_concurrent_steps: 4
`, newHouse(t, m), trio))
			began := time.Now()
			w := c.startProgram(tt.program[0], append(tt.program[1:], "--task-queue", name, "--bucket", s.stack.Bucket, "--worker-config", file)...)
			w.prints(t, "OPENAI_API_KEY is not set") // of the built-in team, which is the default here
			w.prints(t, tt.ready)
			t.Logf("%s works after %v", name, time.Since(began))

			var result sessionflow.Result
			run := s.begin(t, name, name+"-by-team", sessionflow.Input{Query: "Which of us is right?", Team: "trio"})
			require.NoError(t, run.Get(t.Context(), &result))
			require.Equal(t, "consensus", result.Status)
			require.Equal(t, "agent_c", result.Winner)
			require.NotNil(t, result.Cost.TotalUSD, "the price of the provider is known")
			calls := m.calls("model-a") + m.calls("model-b") + m.calls("model-c")
			require.InDelta(t, float64(calls)*(100*10+20*100)/1e6, *result.Cost.TotalUSD, 1e-9)
			require.Contains(t, m.prompts(), `"seed":7`)

			m.rewind()
			run = s.begin(t, name, name+"-by-config", sessionflow.Input{Query: "And again?", Config: []byte(trio)})
			require.NoError(t, run.Get(t.Context(), &result))
			require.Equal(t, "consensus", result.Status)

			run = s.begin(t, name, name+"-elsewhere", sessionflow.Input{
				Query: "Whose key is this?",
				Config: []byte(strings.ReplaceAll(trio, `"provider": "house"`,
					`"base_url": "http://127.0.0.1:1/v1", "api_key_env": "HOUSE_KEY"`)),
			})
			require.ErrorContains(t, run.Get(t.Context(), &result), "a session on a cluster, or of another client, can name the worker's providers, not define one")
			run = s.begin(t, name, name+"-program", sessionflow.Input{
				Query:  "Who am I?",
				Config: []byte(strings.ReplaceAll(trio, `"model-a"}`, `"model-a"}, "mcp_servers": [{"name": "id", "command": "/usr/bin/id"}]`)),
			})
			require.ErrorContains(t, run.Get(t.Context(), &result), "a session on a cluster, or of another client, can name the worker's MCP servers, not define one")
			run = s.begin(t, name, name+"-nowhere", sessionflow.Input{Query: "Where?", Config: []byte(strings.ReplaceAll(trio, "house", "hotel"))})
			parked := func() string {
				if p := s.state(name + "-nowhere").Parked; p != nil {
					return *p
				}
				return ""
			}
			require.Eventually(t, func() bool { return parked() != "" }, time.Minute, 50*time.Millisecond, "no worker is equipped")
			require.Contains(t, parked(), `this worker has no provider "hotel"; it has: house (worker on `)

			s.keepsSecret(t, name+"-by-team", houseKey)
			require.NotContains(t, w.log.String(), houseKey)
		})
	}
}

// begin starts a session on a task queue of its own.
func (s *site) begin(t *testing.T, queue, id string, in sessionflow.Input) client.WorkflowRun {
	t.Helper()
	run, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, sessionflow.Type, in)
	require.NoError(t, err)
	return run
}

// rewind restarts the script.
func (m *modelServer) rewind() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.asked)
}

// keepsSecret requires that nothing that a session leaves contains a secret.
func (s *site) keepsSecret(t *testing.T, id, secret string) {
	t.Helper()
	events := s.client.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		require.NotContains(t, event.String(), secret)
	}
	objects := 0
	for key, err := range s.store.List(t.Context(), artifact.InBucket(id).Root()) {
		require.NoError(t, err)
		data, err := s.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NotContains(t, string(data), secret, key)
		objects++
	}
	require.Positive(t, objects)
}

// Commands that run their own worker accept --worker-config.
func TestWorkerConfigOfCommands(t *testing.T) {
	t.Parallel()
	m := newModelServer(t, map[string][]reply{
		"model-a": {{tool: "report", arguments: map[string]any{"sentence": "It scatters."}}, answer("Answer A."), vote("agent1", "Mine."), answer("Answer of a step."), {tool: "report_result", arguments: map[string]any{
			"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": "It opened.",
		}}},
	})
	c := newCLI(t, "HOUSE_KEY="+houseKey)
	file := c.file("worker.yaml", fmt.Sprintf(`
providers:
  house: {base_url: %q, api_key_env: HOUSE_KEY, price_per_million: {input: 0, output: 0}, max_concurrent_calls: 1}
teams:
  solo: {agents: [{id: agent_a, backend: {provider: house, model: model-a}}]}
`, newHouse(t, m)))
	tester := c.file("agent.yaml", "agent: {id: agent_a, backend: {provider: house, model: model-a}}\n")

	out := c.conclave("run", "--config", tester, "Whose?")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, `this worker has no provider "house"`)
	out = c.conclave("models", "check", "--worker-config", file, "--team", "solo")
	require.Equal(t, 0, out.code, out.stdout)
	require.Regexp(t, `model-a +127\.0\.0\.1:\d+ +agent_a +native`, out.stdout)
	out = c.conclave("doctor", "--config", c.file("offline.yaml", "agent: {backend: {type: offline}}\n"), "--skip", "sandbox", "--json")
	require.Equal(t, 0, out.code, out.stdout)
	require.Equal(t, 5, strings.Count(out.stdout, `"ok": true`), out.stdout)
	out = c.conclave("run", "--worker-config", file, "--team", "solo", "--automation", "Who is right?")
	require.Equal(t, 0, out.code, out.stderr)
	var result sessionflow.Result
	out.lastLine(t, &result)
	require.Equal(t, "Answer A.", result.Answer)
	require.Zero(t, *result.Cost.TotalUSD, "0 is a price")

	out = c.conclave("step", "--session-dir", "dir", "--config", tester, "--worker-config", file, "Who is right?")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "Answer of a step.")

	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "open", "--step", "Open: go to the page").code)
	scenario := []string{"scenario", "run", "shop", "open", "--config", tester, "--worker-config", file, "--session-id", "release-42"}
	out = c.conclave(scenario...)
	require.Equal(t, 0, out.code, out.stderr)
	require.FileExists(t, filepath.Join(c.home, "shop/scenarios/open/runs/release-42/result.json"))
	out = c.conclave(scenario...)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "choose another --session-id")
}

// A model that calls no tool is named, with the remedy, in the failure of its step.
func TestModelWithoutToolCalls(t *testing.T) {
	t.Parallel()
	text := reply{body: `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Your turn."}}]}`}
	m := newModelServer(t, map[string][]reply{"model-a": {text, text, text, text}})
	c := newCLI(t)
	team := c.file("team.yaml", fmt.Sprintf(`agent: {id: agent_a, backend: {type: llamacpp, model: model-a, base_url: "%s/v1"}}`, m.URL))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "open", "--step", "Open: go to the page").code)
	out := c.conclave("scenario", "run", "shop", "open", "--config", team)
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stdout+out.stderr, "called no tool in any reply of this step (`conclave models check` tests it); start the server with --jinja")
	out = c.conclave("models", "check", "--config", team)
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, `it called no tool but wrote "Your turn.", so its agents can only answer and vote in plain text`)
}

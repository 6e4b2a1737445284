//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/s3store"
	"conclave/engine/files/storetest"
)

// meeting is a barrier for all agents.
func meeting(of int) (arrive func(), all <-chan struct{}) {
	var mu sync.Mutex
	complete := make(chan struct{})
	return func() {
		mu.Lock()
		of--
		if of == 0 {
			close(complete)
		}
		mu.Unlock()
		<-complete
	}, complete
}

// again makes a model repeat its current reply, because the present one will be lost.
func (m *modelServer) again(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.asked[model])
	m.script[model] = slices.Insert(m.script[model], n, m.script[model][n-1].during(nil))
}

// fleet is a session of four agents. Its first two waves need two workers with two concurrent steps
// each, and the second wave lasts until release.
func fleet(release <-chan struct{}) (script map[string][]reply, second <-chan struct{}) {
	atFirst, _ := meeting(4)
	atSecond, second := meeting(4)
	wait := func() { atSecond(); <-release }
	return map[string][]reply{
		"model-a": {write("plan.md", "# Plan A\n").during(atFirst), answer("Answer A."), vote("agent3", "C is right.").during(wait), vote("agent3", "Still.")},
		"model-b": {answer("Answer B.").during(atFirst), vote("agent3", "C is right.").during(wait), vote("agent3", "Still.")},
		"model-c": {answer("Answer C.").during(atFirst), answer("Answer C, improved.").during(wait), vote("agent3", "Mine holds.")},
		"model-d": {answer("Answer D.").during(atFirst), vote("agent3", "C is right.").during(wait), vote("agent3", "Still.")},
	}, second
}

// steps maps worker processes to their working agents.
func (s *site) steps(id string) map[string]string {
	s.t.Helper()
	d, err := s.client.DescribeWorkflowExecution(s.t.Context(), id, "")
	require.NoError(s.t, err)
	workers := map[string]string{}
	for _, p := range d.PendingActivities {
		if p.ActivityType.Name == "RunStep" {
			agent, _, _ := strings.Cut(p.ActivityId, "-")
			workers[agent] = p.LastWorkerIdentity
		}
	}
	return workers
}

// crew are two worker processes of one queue, on one bucket.
type crew struct {
	doomed, survivor *background
	metrics          string // address of the survivor's
}

// join starts two workers with room for two steps each and the fleet as their default team.
func join(c *e2eCLI, s *site) crew {
	c.t.Helper()
	team := "agents:\n"
	for _, letter := range []string{"a", "b", "c", "d"} {
		team += fmt.Sprintf("  - {id: agent_%s, backend: {type: openai, model: model-%s}}\n", letter, letter)
	}
	team += "orchestrator: {disable_injection: true}\n" // the script's replies come in its order
	config := c.file("fleet.yaml", team)
	start := func(more ...string) *background {
		w := c.start(append([]string{
			"worker", "--address", s.stack.TemporalAddress, "--bucket", "sessions", "--prefix", "fleet",
			"--config", config, "--max-concurrent-steps", "2",
		}, more...)...)
		w.prints(c.t, "worker on the task queue conclave")
		return w
	}
	metrics := freeAddress(c.t)
	settings := c.file("worker.yaml", "metrics_address: "+metrics+"\n")
	return crew{doomed: start(), survivor: start("--worker-config", settings, "--log-format", "json"), metrics: metrics}
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// requireMetrics checks that the survivor is ready, and counted the lost steps that it resumed
// and its requests.
func (w crew) requireMetrics(t *testing.T, lost int) {
	t.Helper()
	fetch := func(path string) string {
		res, err := http.Get("http://" + w.metrics + path)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Equal(t, "ok\n", fetch("/healthz"))
	require.Equal(t, "ready\n", fetch("/readyz"))
	metrics := fetch("/metrics")
	require.Contains(t, metrics, fmt.Sprintf("conclave_steps_resumed_total{kind=\"session\"} %d\n", lost))
	require.Contains(t, metrics, `conclave_sessions_ended_total{status="consensus",team="default"} 1`)
	require.Contains(t, metrics, `conclave_s3_requests_total{operation="PutObject",status="200"}`)
	require.Contains(t, metrics, `conclave_model_calls_total{model="model-a",outcome="ok",provider="openai"}`)
	require.Contains(t, metrics, `temporal_worker_task_slots_available{`)
}

// is reports whether an identity in a history is that of a worker.
func is(w *background, identity string) bool {
	return strings.Contains(identity, fmt.Sprintf("#%d-", w.Process.Pid))
}

// kill kills a worker in the middle of its steps and returns the agents whose steps are lost.
func (w crew) kill(t *testing.T, s *site, id string) []string {
	t.Helper()
	var lost []string
	for agent, identity := range s.steps(id) {
		if is(w.doomed, identity) {
			lost = append(lost, agent)
		} else {
			require.True(t, is(w.survivor, identity), identity)
		}
	}
	require.NoError(t, w.doomed.Process.Kill())
	w.doomed.ends(t)
	return lost
}

// requireShared checks that both workers ran steps of the three waves, and that only lost steps ran
// again.
func (w crew) requireShared(t *testing.T, s *site, id string, lost []string) {
	t.Helper()
	steps := started(s.history(id), "RunStep")
	require.Len(t, steps, 12)
	byDoomed := 0
	var again []string
	for id, begun := range steps {
		if is(w.doomed, begun.Identity) {
			byDoomed++
			require.EqualValues(t, 1, begun.Attempt)
		} else {
			require.True(t, is(w.survivor, begun.Identity), begun.Identity)
		}
		if begun.Attempt > 1 {
			agent, _, _ := strings.Cut(id, "-")
			again = append(again, agent)
		}
	}
	require.Equal(t, 2, byDoomed, "its steps of the first wave are kept")
	require.ElementsMatch(t, lost, again)
}

// Two worker processes share the steps of a session on a MinIO store. When one is killed in the
// middle of a step, the other runs its unfinished steps again, and only those.
func TestTwoWorkersOnMinIO(t *testing.T) {
	t.Parallel()
	minio := storetest.StartMinIO(t)
	storetest.CreateBucket(t, minio.Endpoint(), minio.AccessKey, minio.SecretKey, "sessions")
	store, err := s3store.New(t.Context(), s3store.Options{
		Bucket: "sessions", Prefix: "fleet", Endpoint: minio.Endpoint(), AccessKeyID: minio.AccessKey, SecretAccessKey: minio.SecretKey,
	})
	require.NoError(t, err)
	release := make(chan struct{})
	script, second := fleet(release)
	calls := map[string]int{}
	for name, replies := range script {
		calls[name] = len(replies)
	}
	model := newModelServer(t, script)
	s := newSite(t)
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+minio.Endpoint(), "AWS_ACCESS_KEY_ID="+minio.AccessKey,
		"AWS_SECRET_ACCESS_KEY="+minio.SecretKey, "OPENAI_BASE_URL="+model.URL+"/v1")
	workers := join(c, s)

	run := s.start("fleet")
	<-second
	lost := workers.kill(t, s, "fleet")
	require.Len(t, lost, 2, "each worker has two of the four steps")
	for _, agent := range lost {
		name := strings.Replace(agent, "agent_", "model-", 1)
		model.again(name)
		calls[name]++
	}
	close(release)

	result := ended(t, run, "consensus")
	require.Equal(t, "agent3.2", result.WinnerLabel)
	require.Equal(t, "Answer C, improved.", result.Answer)
	require.Equal(t, map[string]int{"agent_c": 4}, result.Votes)
	require.Equal(t, 3, result.Rounds)
	require.Equal(t, "s3://sessions/fleet/sessions/fleet/final/agent_c/answer.json", *result.AnswerPath)
	for name, n := range calls {
		require.Equal(t, n, model.calls(name), "%s: a call for every reply, and one more for a lost step", name)
	}
	require.Len(t, ledger(t, store, "fleet"), 12)
	workers.requireShared(t, s, "fleet", lost)
	workers.requireMetrics(t, len(lost))

	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--bucket", "sessions", "--prefix", "fleet", "fleet", dir).code)
	require.FileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace/plan.md"))
}

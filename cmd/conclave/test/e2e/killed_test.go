//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"conclave/activities"
)

// within is far less than the heartbeat timeout, after which a lost machine is replaced.
const within = 20 * time.Second

// fatal is a session whose worker dies during a step's second model call, which is then repeated.
func fatal(t *testing.T) (model *modelServer, asked, again <-chan struct{}) {
	t.Helper()
	lost, asked, hold := held(answer("Lost."))
	repeated := make(chan struct{})
	model = newModelServer(t, map[string][]reply{
		"model-a": {write("plan.md", "half of it"), lost, answer("Answer A.").during(func() { close(repeated) }), vote("agent1", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	return model, asked, repeated
}

func requireSoon(t *testing.T, again <-chan struct{}, who string) {
	t.Helper()
	began := time.Now()
	select {
	case <-again:
		t.Logf("after a kill of %s the step continues within %s", who, time.Since(began))
	case <-time.After(within):
		require.Fail(t, "the step does not continue", "%s after a kill of %s", within, who)
	}
}

// After a kill -9 of its worker, or of the servers as well, a step continues within seconds of the
// next command.
func TestKilledWorkerIsReaped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ begin, goOn []string }{
		"run, then watch": {[]string{"run", "--automation", "--session-id", "killed", "Q?"}, []string{"watch", "killed"}},
		"dev, then dev":   {[]string{"dev"}, []string{"dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, asked, again := fatal(t)
			c := newCLI(t)
			team := c.file("team.yaml", model.team("agent_a"))
			first := c.start(append(tt.begin, "--config", team)...)
			if tt.begin[0] == "dev" {
				first.prints(t, "Ctrl-C stops.")
				require.Equal(t, 0, c.conclave("start", "--config", team, "--session-id", "killed", "Q?").code)
			}
			<-asked
			require.NoError(t, first.Process.Kill())
			next := c.start(tt.goOn...)
			requireSoon(t, again, tt.begin[0])
			require.Contains(t, c.conclave("watch", "--automation", "killed").stdout, `"status":"consensus"`)
			require.Equal(t, 4, model.calls("model-a"))
			_ = next.Process.Signal(syscall.SIGTERM) // it may have ended
			next.ends(t)
			left, err := os.ReadDir(filepath.Join(c.home, ".local/share/conclave/workers"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// clusterWorker starts workers that reach the site as they would reach a cluster.
type clusterWorker struct {
	cli     *e2eCLI
	address string // of Temporal
	args    []string
}

func newClusterWorker(t *testing.T, s *site, model *modelServer, settings string) clusterWorker {
	t.Helper()
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region, "AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey,
		"AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey, "OPENAI_BASE_URL="+model.URL+"/v1")
	return clusterWorker{cli: c, address: s.stack.TemporalAddress, args: []string{
		"worker", "--address", s.stack.TemporalAddress, "--bucket", s.stack.Bucket, "--state-dir", filepath.Join(c.home, "state"),
		"--worker-config", c.file("worker.yaml", settings),
		"--config", c.file("team.yaml", "agents:\n  - {id: agent_a, backend: {type: openai, model: model-a}}\n"),
	}}
}

// start starts the worker and waits until it works.
func (w clusterWorker) start() *background {
	w.cli.t.Helper()
	b := w.cli.start(w.args...)
	b.prints(w.cli.t, "worker on the task queue conclave")
	return b
}

// conclave runs a command on the worker's cluster to its end.
func (w clusterWorker) conclave(args ...string) output {
	w.cli.t.Helper()
	return w.cli.conclave(append(args, "--address", w.address)...)
}

// On a cluster the next worker of the machine reaps its predecessor. The history has no more events
// for it.
func TestKilledWorkerOfACluster(t *testing.T) {
	t.Parallel()
	model, asked, again := fatal(t)
	s := newSite(t)
	worker := newClusterWorker(t, s, model, "heartbeat_timeout_seconds: 600\n")
	doomed := worker.start()
	run := s.start("killed")
	<-asked
	require.NoError(t, doomed.Process.Kill())
	doomed.ends(t)
	worker.start()
	requireSoon(t, again, "worker")
	ended(t, run, "consensus")
	require.EqualValues(t, 4, model.calls("model-a"))
	begun := started(s.history("killed"), "RunStep")
	require.Len(t, begun, 2)
	require.EqualValues(t, 2, begun["agent_a-l1"].Attempt)
	require.Equal(t, activities.WorkerLost, begun["agent_a-l1"].LastFailure.GetApplicationFailureInfo().GetType())
	for _, e := range s.history("killed").Events {
		if scheduled := e.GetActivityTaskScheduledEventAttributes(); scheduled.GetActivityType().GetName() == "RunStep" {
			require.Equal(t, 10*time.Minute, scheduled.GetHeartbeatTimeout().AsDuration(), "the operator's")
		}
	}
}

// A worker that is suspended for longer than the heartbeat timeout still has its model call in
// flight when it continues. The next attempt adopts the running step, and nothing is paid for
// twice.
func TestSuspendedWorkerKeepsItsReply(t *testing.T) {
	t.Parallel()
	slow, asked, release := held(answer("Answer A."))
	model := newModelServer(t, map[string][]reply{"model-a": {write("plan.md", "half of it"), slow, vote("agent1", "Mine.")}})
	s := newSite(t)
	worker := newClusterWorker(t, s, model, "heartbeat_timeout_seconds: 10\n")
	suspended := worker.start()
	run := s.start("suspended")
	<-asked
	attempt := func(state enumspb.PendingActivityState) func() bool {
		return func() bool {
			d, err := s.client.DescribeWorkflowExecution(t.Context(), "suspended", "")
			if err != nil || len(d.GetPendingActivities()) != 1 {
				return false
			}
			a := d.GetPendingActivities()[0]
			return a.GetAttempt() == 2 && a.GetState() == state
		}
	}
	require.NoError(t, suspended.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, attempt(enumspb.PENDING_ACTIVITY_STATE_SCHEDULED), time.Minute, 50*time.Millisecond)
	require.NoError(t, suspended.Process.Signal(syscall.SIGCONT))
	require.Eventually(t, attempt(enumspb.PENDING_ACTIVITY_STATE_STARTED), time.Minute, 50*time.Millisecond)
	close(release)
	result := ended(t, run, "consensus")
	require.Equal(t, 3, model.calls("model-a"), "no reply is paid for twice")
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	require.EqualValues(t, 2, started(s.history("suspended"), "RunStep")["agent_a-l1"].Attempt)
	suspended.prints(t, "the step still runs here")
}

//go:build e2e

package chaos

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

const deployment = "conclave"

// Sessions that begin before an upgrade, after it and after the rollback end well, each on the
// build with which it began, and no workflow task fails. Both builds run all the time; the first
// one is stopped once none of its sessions is left.
func TestRollback(t *testing.T) {
	c := newCluster(t)
	old, fresh := c.deploy("old", os.Getenv("CONCLAVE_WORKER_BIN")), c.deploy("fresh", os.Getenv("CONCLAVE_WORKER_AHEAD_BIN"))
	require.NotEqual(t, old.build, fresh.build)
	const each = 8
	all := plannedRuns(4*each, 0, 0)
	order := []deployed{old, fresh, old, fresh} // an upgrade, a rollback, and the upgrade again
	for i, d := range order {
		c.makeCurrent(d)
		c.startAll(all[i*each:(i+1)*each], time.Second)
	}
	c.awaitAll(all)
	current := make([]int, len(order)) // number of sessions that began on the current build
	for i, r := range all {
		require.Empty(t, r.failed, r.id)
		require.Empty(t, c.doubled(r.id))
		if c.pinned(r.id) == order[i/each].build {
			current[i/each]++
		}
	}
	for i, n := range current { // the server's queues learn of a change one after the other
		require.GreaterOrEqual(t, n, each/2, "change %d: sessions on the current build: %v of %d", i, current, each)
	}

	// A worker that is stopped under load hands its steps over to the other one of its build.
	second := c.deploy("second", os.Getenv("CONCLAVE_WORKER_AHEAD_BIN"))
	require.Equal(t, fresh.build, second.build)
	more := plannedRuns(5*each, 0, 0)[4*each:]
	c.startAll(more, time.Second)
	require.Eventually(t, func() bool {
		calls, _ := c.model.paid()
		return calls > 0 && c.model.busy(fresh.worker.name)
	}, time.Minute, 10*time.Millisecond)
	began := time.Now()
	require.NoError(t, fresh.worker.child.Process.Signal(syscall.SIGTERM))
	<-fresh.worker.ended
	drained := time.Since(began)
	require.Zero(t, fresh.worker.child.ProcessState.ExitCode(), fresh.worker.tail())
	require.Less(t, drained, 20*time.Second, "the time that docs/operating.md states")
	t.Logf("a worker with steps was out %s after SIGTERM", drained.Round(100*time.Millisecond))
	c.awaitAll(more)
	for _, r := range more {
		require.Empty(t, r.failed, r.id)
		c.pinned(r.id)
	}
}

// deployed is a worker of the deployment, and its build ID.
type deployed struct {
	worker *fleetWorker
	build  string
}

// deploy starts a worker of the deployment and waits until the server knows its build.
func (c *cluster) deploy(name, binary string) deployed {
	c.t.Helper()
	require.NotEmpty(c.t, binary, "a build is missing: run make chaos")
	here := func(address string) string { return address }
	d := deployed{worker: c.newWorker(place{name: name, binary: binary, reach: here, storage: c.minio.Endpoints[0], flags: []string{"--deployment", deployment}})}
	require.Eventually(c.t, func() bool {
		_, after, found := strings.Cut(d.worker.tail(), `"build":"`)
		d.build, _, _ = strings.Cut(after, `"`)
		return found
	}, time.Minute, 50*time.Millisecond, "the worker does not start")
	return d
}

// makeCurrent makes a build the current one as soon as the server has seen all its queues.
func (c *cluster) makeCurrent(d deployed) {
	c.t.Helper()
	handle := c.client.WorkerDeploymentClient().GetHandle(deployment)
	require.Eventually(c.t, func() bool {
		_, err := handle.SetCurrentVersion(c.t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: d.build})
		return err == nil
	}, time.Minute, 100*time.Millisecond, "build %s does not become the current one", d.build)
}

// pinned returns the build of a workflow. It checks that the workflow stayed with it and that none of its tasks failed.
func (c *cluster) pinned(id string) (build string) {
	c.t.Helper()
	described, err := c.client.DescribeWorkflowExecution(c.t.Context(), id, "")
	require.NoError(c.t, err)
	build = described.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId()
	require.NotEmpty(c.t, build, id)
	history := c.client.GetWorkflowHistory(c.t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(c.t, err)
		if failed := event.GetWorkflowTaskFailedEventAttributes(); failed != nil {
			require.Fail(c.t, "a workflow task failed", "%s: %s", id, failed.GetFailure().GetMessage())
		}
		if done := event.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			require.Equal(c.t, build, done.GetDeploymentVersion().GetBuildId(), id)
		}
	}
	return build
}

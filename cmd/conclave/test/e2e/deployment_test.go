//go:build e2e

package e2e

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// A worker of a deployment gets no work until its version is the current one. A run is then pinned to that version.
func TestPinnedWorker(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Answer A."), vote("agent1", "Mine.")}})
	s := newSite(t)
	w := newClusterWorker(t, s, model, reviewers)
	w.args = append(w.args, "--deployment", "trial")
	log := w.start().log
	build := regexp.MustCompile(`build (\S+) of the worker deployment trial`).FindStringSubmatch(log.String())
	require.Len(t, build, 2, log)
	run := s.start("pinned")
	deployment := s.client.WorkerDeploymentClient().GetHandle("trial")
	require.Eventually(t, func() bool {
		version, err := deployment.DescribeVersion(t.Context(), client.WorkerDeploymentDescribeVersionOptions{BuildID: build[1]})
		return err == nil && len(version.Info.TaskQueuesInfos) > 2 // workflows, bookkeeping and steps
	}, time.Minute, 50*time.Millisecond, "the version polls no queue")
	require.Len(t, s.history("pinned").Events, 2, "no worker has the first task")

	out := w.cli.temporal("worker", "deployment", "set-current-version", "--address", w.address, "--deployment-name", "trial", "--build-id", build[1], "--yes")
	require.Equal(t, 0, out.code)
	ended(t, run, "consensus")
	described, err := s.client.DescribeWorkflowExecution(t.Context(), "pinned", "")
	require.NoError(t, err)
	versioning := described.GetWorkflowExecutionInfo().GetVersioningInfo()
	require.Equal(t, enumspb.VERSIONING_BEHAVIOR_PINNED, versioning.GetBehavior())
	require.Equal(t, build[1], versioning.GetDeploymentVersion().GetBuildId())
	for _, begun := range started(s.history("pinned"), "RunStep") {
		require.Regexp(t, `^conclave-worker/\S+@\S+#\d+-`, begun.Identity)
	}
}

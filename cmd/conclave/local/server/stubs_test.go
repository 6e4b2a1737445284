package server

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"conclave/cmd/conclave/local"

	"github.com/stretchr/testify/require"
	computepb "go.temporal.io/api/compute/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TestStubs_areImportedByTheServersAlone lists every package of this module's
// binaries: only the embedded Temporal and S3 servers may import a module that a
// stub replaces, since a stub refuses all work.
func TestStubs_areImportedByTheServersAlone(t *testing.T) {
	t.Parallel()
	modules, err := exec.Command("go", "list", "-m", "-f", "{{if .Replace}}{{.Path}}{{end}}", "all").Output()
	require.NoError(t, err)
	replaced := strings.Fields(string(modules))
	require.Len(t, replaced, 6)

	packages, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "conclave/cmd/...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(packages)) {
		importer, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		for path := range strings.FieldsSeq(imports) {
			for _, module := range replaced {
				if path != module && !strings.HasPrefix(path, module+"/") {
					continue
				}
				server := strings.HasPrefix(importer, "go.temporal.io/server/") || strings.HasPrefix(importer, "github.com/versity/versitygw/")
				require.True(t, server || strings.HasPrefix(importer, module), "%s imports %s, which a stub replaces", importer, path)
			}
		}
	}
}

// TestStubs_leaveWorkerVersioningWhole deploys a versioned worker, which uses the stub of compute
// providers but needs none.
func TestStubs_leaveWorkerVersioningWhole(t *testing.T) {
	t.Parallel()
	stack := join(t, t.TempDir(), local.Options{}).Stack
	c := temporalClient(t, stack)
	w := worker.New(c, "versioned", worker.Options{DeploymentOptions: worker.DeploymentOptions{
		UseVersioning: true,
		Version:       worker.WorkerDeploymentVersion{DeploymentName: "stubs", BuildID: "1"},
	}})
	w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "done", nil },
		workflow.RegisterOptions{Name: "pinned", VersioningBehavior: workflow.VersioningBehaviorPinned})
	require.NoError(t, w.Start())
	defer w.Stop()

	deployment := c.WorkerDeploymentClient().GetHandle("stubs")
	require.Eventually(t, func() bool {
		_, err := deployment.SetCurrentVersion(t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: "1"})
		return err == nil
	}, 2*time.Minute, 100*time.Millisecond)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "versioned"}, "pinned")
	require.NoError(t, err)
	var result string
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, "done", result)
	_, err = deployment.DescribeVersion(t.Context(), client.WorkerDeploymentDescribeVersionOptions{BuildID: "1"})
	require.NoError(t, err)

	_, err = c.WorkflowService().ValidateWorkerDeploymentVersionComputeConfig(t.Context(), &workflowservice.ValidateWorkerDeploymentVersionComputeConfigRequest{
		Namespace:         stack.Namespace,
		DeploymentVersion: &deploymentpb.WorkerDeploymentVersion{DeploymentName: "stubs", BuildId: "1"},
		ComputeConfigScalingGroups: map[string]*computepb.ComputeConfigScalingGroupUpdate{
			"all": {ScalingGroup: &computepb.ComputeConfigScalingGroup{Provider: &computepb.ComputeProvider{Type: "k8s"}}},
		},
	})
	require.ErrorContains(t, err, "not available in the embedded server")
}

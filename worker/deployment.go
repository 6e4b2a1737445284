package worker

import (
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/worker/cluster"
)

// deployment returns the SDK's options for the worker deployment, if one is configured.
func (c Config) deployment() sdkworker.DeploymentOptions {
	if c.Deployment == "" {
		return sdkworker.DeploymentOptions{}
	}
	return sdkworker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   sdkworker.WorkerDeploymentVersion{DeploymentName: c.Deployment, BuildID: cluster.BuildID()},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}
}

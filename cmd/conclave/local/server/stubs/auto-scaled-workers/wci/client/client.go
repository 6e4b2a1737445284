// Package client implements the server's requests about compute providers.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.uber.org/fx"

	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
)

// unavailable is the error for a request for a compute provider, with the remedy.
const unavailable = "compute providers are not available in the embedded server: start workers yourself, or use a Temporal server of your own"

// Module provides a Client to the server.
var Module = fx.Provide(func() Client { return Client{} })

// Client refuses to create compute providers and has none.
type Client struct{}

// DescribeWorkerControllerInstance returns NotFound.
func (Client) DescribeWorkerControllerInstance(
	context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion,
) (*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error) {
	return nil, nil, serviceerror.NewNotFound(unavailable)
}

// UpdateWorkerControllerInstance returns InvalidArgument.
func (Client) UpdateWorkerControllerInstance(
	context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, []byte, string,
	map[string]iface.ScalingGroupSpecUpdate, []string,
) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, serviceerror.NewInvalidArgument(unavailable)
}

// ValidateWorkerControllerInstanceSpec returns InvalidArgument.
func (Client) ValidateWorkerControllerInstanceSpec(
	context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string,
	map[string]iface.ScalingGroupSpecUpdate, []string,
) error {
	return serviceerror.NewInvalidArgument(unavailable)
}

// DeleteWorkerControllerInstance succeeds, since no instance can exist.
func (Client) DeleteWorkerControllerInstance(
	context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string,
) error {
	return nil
}

// Package iface has the types that describe compute providers. The server passes them only to package client.
package iface

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
)

// ComputeProviderType names a kind of compute provider.
type ComputeProviderType string

// ComputeProviderSpec is a compute provider with its settings.
type ComputeProviderSpec struct {
	ProviderType  ComputeProviderType
	Config        *commonpb.Payload
	NexusEndpoint string
}

// ScalingAlgorithmType names a scaling algorithm.
type ScalingAlgorithmType string

// ScalingAlgorithmSpec is a scaling algorithm with its settings.
type ScalingAlgorithmSpec struct {
	ScalingAlgorithm ScalingAlgorithmType
	Config           *commonpb.Payload
}

// ScalingGroupSpec is the compute provider and the scaling algorithm for some types of tasks.
type ScalingGroupSpec struct {
	TaskTypes []enumspb.TaskQueueType
	Compute   ComputeProviderSpec
	Scaling   *ScalingAlgorithmSpec
}

// ScalingGroupSpecUpdate is a change of the fields in UpdateMask.
type ScalingGroupSpecUpdate struct {
	Spec       ScalingGroupSpec
	UpdateMask []string
}

// WorkerControllerInstanceSpec has the scaling groups of a deployment version.
type WorkerControllerInstanceSpec struct {
	ScalingGroupSpecs map[string]ScalingGroupSpec
}

// QueryDescribeWorkerControllerInstanceResponse answers a description request.
type QueryDescribeWorkerControllerInstanceResponse struct {
	Spec             *WorkerControllerInstanceSpec
	ValidationStatus *ValidationStatus
}

// UpdateWorkerControllerInstanceResponse answers an update.
type UpdateWorkerControllerInstanceResponse struct {
	Spec *WorkerControllerInstanceSpec
}

// ValidationResult is the outcome of a validation.
type ValidationResult string

// ValidationResultFailed is the result of a validation that found a fault.
const ValidationResultFailed ValidationResult = "failed"

// ValidationStatus is the newest validation of a provider. The server decodes
// it from a signal, so its JSON names are part of the interface.
type ValidationStatus struct {
	LastValidationTime time.Time        `json:"last_validation_time"`
	Status             ValidationResult `json:"status"`
	ErrMessage         string           `json:"err_message,omitempty"`
}

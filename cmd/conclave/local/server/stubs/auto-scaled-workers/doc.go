// Package autoscaledworkers stands in for go.temporal.io/auto-scaled-workers in the
// conclave binary, by a replace directive in its go.mod.
//
// The real module starts workers on Kubernetes, AWS and Google Cloud for a Temporal
// server that runs there, and links the clients of these services. The embedded
// server has no compute provider to start workers on, so a request for one returns
// an InvalidArgument error, and a request about an existing one returns NotFound.
package autoscaledworkers

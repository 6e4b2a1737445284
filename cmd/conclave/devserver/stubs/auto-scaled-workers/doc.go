// Package autoscaledworkers stands in for go.temporal.io/auto-scaled-workers in the
// conclave binary, by a replace directive in its go.mod.
//
// The real module starts workers on Kubernetes, AWS and Google Cloud for a Temporal
// server that runs there, and links their clients. The embedded server has no
// compute provider to start workers on, so each request for one is answered with
// an InvalidArgument error; requests about existing ones find none.
package autoscaledworkers

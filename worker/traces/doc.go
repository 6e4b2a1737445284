// Package traces exports the work of a worker process as OpenTelemetry spans if the standard OTEL_*
// variables enable it: sessions, pipeline and scenario runs, their steps, and the model calls and
// tool calls of steps, with the attributes of the GenAI conventions.
//
// Start with Tracer. Workflow code creates no spans, because it is replayed. Instead, the trace ID
// and the ID of the root span are hashes of the workflow and its run, so that the spans of all
// workers belong to the same trace. The worker that writes the last record exports the root span.
// The text of prompts, replies and tool calls is omitted unless it is enabled.
package traces

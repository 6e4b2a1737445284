// Package worker assembles a worker process: the store, the teams, the activities and their
// registration with Temporal. Package worker/cluster connects it to Temporal and the store.
//
// Start with Config and Run in worker.go. Its parts are:
//
//   - settings.go: Settings, the operator's file: the providers and teams that sessions can name, the tools,
//     and the limits. It is read from a file, never from the input of a session. Its teams obey the rules of
//     such inputs: they name providers, and cannot define addresses, keys or programs.
//   - model.go: Models, which builds the models of agents at the operator's providers and looks up
//     their keys; Local provides models and tools to steps that run without a worker.
//   - queue.go: the line in which model calls wait for the limits of their provider; share.go
//     divides those limits among the workers.
//   - tools.go: Tools, which opens the agents' tools, including those of MCP servers.
//   - source.go: the directories and repositories that runs start from; notify.go: who is told of runs
//   - overlays.go: mounts of shared files for workspaces; host.go: a queue of this process alone,
//     for steps that need its open tools; equipment.go: the answers to activities.
//   - prices.go: list prices and context windows of models
//   - roster.go, reap.go: the report of the activities of a dead worker
//   - traces.go, ids.go: spans
//
// # Prices
//
// The list prices and context windows are those of models at the providers' own addresses, as of a
// given day. They are a fallback: the cost that a server reports and the operator's configuration
// take precedence. If a model is in neither of them nor in the table, its price is unknown, never
// zero. The table contains list prices of plain calls, without discounts for batches and
// surcharges for regions or cache writes. The figures in table.json are facts from the providers'
// price lists, as collected by the MIT-licensed genai-prices. Start with FindTariff.
//
// # Dead workers
//
// The death of a worker process is detected at once. A process writes the task tokens of its
// running activities to a file, its Roster, which it keeps locked while it runs. A process that
// finds the lock free reports those activities as failed, so that Temporal gives them to another
// worker long before their heartbeat timeout. Start with OpenRoster, which a worker calls, and
// ReapRosters, which other workers and the embedded stack call. A token identifies one attempt:
// reporting it after the attempt has ended has no effect.
//
// # Spans
//
// If the standard OTEL_* variables enable it, a Tracer exports sessions, pipeline and scenario
// runs, their steps, and the model calls and tool calls of steps as OpenTelemetry spans, with the
// attributes of the GenAI conventions. Workflow code creates no spans, because it is replayed.
// Instead, the trace ID and the ID of the root span are hashes of the workflow and its run, so that
// the spans of all workers belong to the same trace. The worker that writes the last record exports
// the root span. The text of prompts, replies and tool calls is omitted unless it is enabled.
package worker

// Package activities contains the activities of conclave's workflows and with them all of its input
// and output. Activities add heartbeats, fencing and error types to the engine, which does not
// import Temporal. The packages below it are:
//
//   - attempt runs one durable attempt at a step of any product.
//   - session has Prepare, RunStep, RunChecks, Reckon, Record and Present.
//   - pipeline has PreparePipeline, RunPipelineStep, AskTeam, ReckonPipelineStep,
//     RecordPipeline and ConcludePipeline.
//   - scenario has PrepareScenario, RunScenarioStep, ReckonScenarioStep and
//     RecordScenario, and the tool that stores a step's evidence.
//   - The adapters do not import Temporal. openai and offline are models; tools, mcp and sandbox provide the
//     agents' tools, and sandbox/attack tests the sandbox; s3store is the store.
//   - workertest stands in for a worker in tests.
//
// This package has the parts that the products share: the equipment of a worker and its server
// (equipment.go, teams.go), claims, events and heartbeats (bookkeeping.go), notices to
// receivers (notify.go), and error types (equipment.go). The products import neither each other nor the adapters; package worker assembles
// them. Start with Equipment in equipment.go, then Attempt.Perform in package attempt.
package activities

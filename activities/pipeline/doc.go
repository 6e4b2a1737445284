// Package pipeline has the activities of the Pipeline workflow:
//
//   - PreparePipeline resolves and validates the pipeline, and claims the run's directory.
//   - RunPipelineStep, registered as RunSegment, runs one launch of a step: an agent, tool
//     calls, or a team's decision.
//   - AskTeam composes the question for the team of a session step.
//   - AskPerson writes the question of an approval step.
//   - ReckonPipelineStep counts the usage of a step that ended without a report.
//   - RecordPipeline writes human messages and the documents derived from the history.
//   - ConcludePipeline writes result.json.
//
// Inputs and results are in pipeline.go. The other activities are registered under the names of
// their methods. Workflow histories contain the registered names.
//
// Start with RunPipelineStep in step.go.
package pipeline

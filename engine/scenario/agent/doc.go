// Package agent runs one step of a scenario on durable storage. Its rules judge the report of
// the step's agent, which is committed in the run's directory.
//
// A launch after a suspension, or of a resumed run, has its own directory below the step's.
// Evidence belongs to the step and is stored by the activities. Start with Step.Spec.
// The messages of `conclave say` enter the prompt in rules.go.
package agent

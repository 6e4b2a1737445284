// Package agent runs one step of a scenario on durable storage: its rules judge the
// report of the step's agent, which is committed in the run's directory.
//
// A launch after a suspension, or of a resumed run, has a directory of its own below
// the step's; evidence belongs to the step and is kept by the activities. Start with
// Step.Spec.
package agent

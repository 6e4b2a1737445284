// Package trial is one step of a scenario on durable storage: rules are made of
// what its agent is told, and what it came to is committed in the run's directory.
// It is to package scenario what member is to coordination and team, and knows no
// Temporal.
//
// A step that is launched again, because it was suspended or because its run is
// gone on with, is another trial of the same step, with a directory of its own. Its
// evidence is the step's: package activities keeps that.
//
// Start with Step.Spec.
package agent

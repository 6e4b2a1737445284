// Package member is a team member's step: which answers it is shown, what its
// accepted action commits, and which files are made of the commit. It turns a
// coordination.Launch into a step.Spec, with the prompts and rules of
// engine/team in between, and is used as it is under Temporal and by hand.
//
// It is the one place where anonymous numbers and agent IDs meet: everything a
// model sees is built by engine/team from numbers, everything stored names IDs.
package member

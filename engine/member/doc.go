// Package member is a team member's step: what it is shown and told, what
// reaches it while it works, what its accepted action commits, and which files
// are made of the commit. It turns a coordination.Launch into a step.Spec, with
// the prompts and rules of engine/team in between, and is used as it is under
// Temporal and by hand.
//
// It is the one place where anonymous numbers and agent IDs meet: everything a
// model sees is built by engine/team from numbers, everything stored names IDs.
//
// It decides nothing: what may be offered is coordination's, what an agent is
// told and when is team's, and how a step survives its worker is step's.
//
// In a directory that other programs write to, too, an answer may have no commit:
// Step.Commits brings one.
//
// Start with Step and Spec in launch.go. What the launch shows is read in
// answer.go and message.go, what the configuration adds is in settings.go and
// task.go, and what comes while the step runs in post.go. Actions are sealed in
// action.go, projected in document.go, and read again in outcome.go.
package member

// Package step runs one step durably: claim → restore → loop → journal →
// snapshot → commit → project. It is the same for a team member's step under
// Temporal, for one run by hand in a directory, for a step of a pipeline and of
// a scenario; they differ in their Spec.
//
//   - claim: the step takes its number by creating step.json with its
//     execution token. A retry finds its own claim by the token.
//   - restore: a fresh workspace, peers' files read-only under peers/agent<N>/;
//     the rules learn what earlier attempts journaled.
//   - loop: the model and the tools, until the rules accept an action. Peers'
//     newer files are mounted while it runs, as the rules ask for them.
//   - snapshot: files and transcript are written as content-addressed blobs.
//   - commit: one key, action.json, created conditionally. Before it nothing of
//     the step is visible; after it the action is real, whoever asks.
//   - project: the files that people and other programs read are made from the
//     commit. Projecting twice changes nothing.
//
// A step may also end itself without an action (*loop.EndedError), or be ended
// from outside: Leave keeps its transcript, Abandon tells of a step given up.
//
// A step whose completion was lost is found by its token, projected again and
// not run again. Run in step.go is that sequence.
//
// What survives an attempt is what the Journal port keeps. Without one, a lost
// attempt's model calls are paid again; its number, its claim and its commit
// are found either way.
//
// Not here: what a step is about (engine/member, engine/pipeline,
// engine/scenario), heartbeats and retries (activities).
package step

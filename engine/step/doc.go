// Package step runs one step durably: claim → restore → loop → journal →
// snapshot → commit → project. It is the same for a team member's step under
// Temporal, for one run by hand in a directory, for a step of a pipeline and of
// a scenario; they differ in their Spec.
//
//   - claim: the step takes its number by creating step.json with its
//     execution token. A retry finds its own claim by the token.
//   - restore: a fresh workspace, peers' files read-only under peers/agent<N>/ and
//     long texts of theirs at peers/agent<N>.md;
//     then the files and the conversation of earlier attempts, from the journal.
//     The rules learn what was journaled.
//   - loop: the model and the tools, until the rules accept an action. Peers'
//     newer files are mounted while it runs, as the rules ask for them.
//   - journal: every reply, and every batch of tool results with the files that
//     changed, is kept under journal/<token>/ before anything follows from it.
//   - snapshot: files and transcript are written as content-addressed blobs.
//   - commit: one key, action.json, created conditionally. Before it the step
//     has no action; after it the action is real, whoever asks, and the journal
//     is removed.
//   - project: the files that people and other programs read are made from the
//     commit. Projecting twice changes nothing.
//
// A step may also end itself without an action (*loop.EndedError), or be ended
// from outside: Leave keeps its transcript, Abandon tells of a step given up.
//
// # What survives an attempt
//
// The journal, always: at most the model call that was under way is paid again,
// and tool calls without journaled results run again, or, where that may do
// harm, the model is told that their outcome is unknown. What was elided of a long
// conversation, or summarized, stays so. The journal of a step
// that was suspended, or has failed, stays, and a later step takes it over by
// that one's token (Spec.ResumeFrom); what was used is counted once, where it
// was paid. Of two attempts at work the one with the higher number goes on.
//
// A step whose completion was lost is found by its token, projected again and
// not run again. Run in step.go is that sequence, journal.go and resume.go what
// makes it durable.
//
// Not here: what a step is about (engine/member, engine/pipeline,
// engine/scenario), heartbeats and retries (activities).
package step

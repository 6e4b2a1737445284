// Package step runs one step durably: claim → restore → loop → journal → commit →
// derived documents. The steps of sessions, of pipelines, of scenarios and those run by
// hand in a directory differ only in their Spec.
//
//   - claim: the step takes its number by creating step.json with its execution token. A
//     retry finds its own claim by the token.
//   - restore: a new workspace with peers' files read-only under peers/agent<N>/ and
//     their long texts at peers/agent<N>.md; then the files and the conversation of
//     earlier attempts, from the journal. The rules learn its entries.
//   - loop: the model and the tools, until the rules accept an action. The rules may mount
//     peers' newer files while it runs.
//   - journal: every reply before a tool or the model is called again, and every batch of tool results
//     with the changed files, is stored under journal/<token>/. The last reply is in transcript.jsonl only.
//   - commit: files and transcript are stored as content-addressed blobs, then one key,
//     action.json, is created conditionally. Before it the step has no action; after it
//     the action is real, and the journal is deleted.
//   - derived documents: the files for people and other programs, written from the commit,
//     any number of times. A late attempt may replace transcript.jsonl: readers take the
//     content that the commit names, and whoever finds the commit writes the file again.
//
// A step may also end itself without an action (*loop.EndedError), or be ended from
// outside: Leave stores its transcript, Abandon records that it was given up. If it was cancelled, or
// its time was over, in a batch of tool calls, both have the results of the batch so far.
//
// # Attempts
//
// The journal survives an attempt: at most the model call in flight is paid again. Tool calls without
// journaled results run again or, where that may do harm, the model is told that their outcome is unknown.
// Elisions and summaries of a long conversation are journaled, too. The journal of a suspended or failed step
// stays, and a later step takes it over by its token (Attempt.ResumeFrom); usage is counted once, where it
// was paid. Of two running attempts the one with the higher number continues.
//
// A step whose completion was lost is found by its token and not run again.
//
// Start with Run in step.go, then journal.go and claim.go, in which a step is claimed. message.go reads the
// messages of `conclave say`. Classify in claim.go gives every error of the engine its type. Heartbeats and
// retries belong to the activities.
package step

// Package files implements the commands that read or remove the files of runs of any kind: pull,
// transcript, view, export, prune and delete. None of them runs a step.
//
// # Pull
//
// `conclave pull` copies a run from a store to a directory for people and other programs. Unlike
// the store, the directory has unescaped paths, real links and file modes. Write-once files are
// copied only once, so an interrupted copy can be resumed and an old one updated. With --verify
// the records are also compared with each other.
//
// Start with PullCommand in command.go; copyRun in pull.go copies, transfer.go moves single files and
// verify.go compares. Package project keeps the directories of scenarios up to date with CopyFiles.
//
// # Transcript, view and export
//
// `conclave transcript` prints the messages, tool calls and cost of a step, with a block for every entry of
// its transcript. Text of models and tools is printed without control sequences and always indented, so that
// it cannot imitate a block. Start with TranscriptCommand; print.go formats the blocks.
//
// `conclave view` serves the pages of runs on this machine or writes the page of one run to a file.
// Start with ViewCommand.
//
// `conclave export` translates the record of a run for other tools: as OpenTelemetry spans (otel.go),
// as an agent trajectory (atif.go) or as JSON lines. Start with ExportCommand in atif.go.
//
// # Prune and delete
//
// They remove ended runs with their files in the store and their histories. prune also removes
// unused registered teams and old logs from the data directory. Start with PruneCommands;
// inventory.go finds the runs with their workflows and chooses those to remove, remove.go removes
// one, and leftovers.go finds the files that are then unused.
//
// An open workflow is never touched, and neither is a run that a kept one needs: a session that it continues,
// or the session of a pipeline's step. A run is marked (artifact.Deleted) before its first file is deleted,
// and the mark is deleted last. The next command therefore completes an interrupted deletion, and nothing
// mistakes the remaining files for a session.
package files

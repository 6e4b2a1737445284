// Package prune implements `conclave prune` and `conclave delete`. They remove ended
// sessions and ended runs of pipelines and scenarios, with their files in the store and
// their histories. prune also removes unused registered teams and old logs from the data
// directory.
//
// Start with command.go. inventory.go finds the runs and executions.go their workflows,
// choose.go selects the runs to remove, remove.go deletes one, and leftovers.go finds the files that are then unused.
//
// An open workflow is never touched, and neither is a run that a kept one needs: a
// session that it continues, or the session of a pipeline's step. A run is marked
// (artifact.Deleted) before its first file is deleted, and the mark is deleted last. The
// next command therefore completes an interrupted deletion, and nothing mistakes the
// remaining files for a session.
package prune

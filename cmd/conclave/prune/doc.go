// Package prune is `conclave prune` and `conclave delete`, which remove ended sessions,
// runs of pipelines and runs of scenarios: their files in the store and their
// histories, and with prune the registered teams and old logs of the data directory
// that nothing refers to any more.
//
// Start with command.go. inventory.go finds the runs, choose.go decides which of them
// go, remove.go deletes one, and leftovers.go finds the files that this leaves unused.
//
// An open workflow is never touched, nor a run that another one needs: a session that a
// kept session continues, or the session of a step whose pipeline run is kept. A run
// is marked before its first file is deleted (artifact.Deleted), and the mark goes last:
// an interrupted deletion is finished by the next one, and nobody takes the rest for a
// session.
package prune

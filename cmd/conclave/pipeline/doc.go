// Package pipeline implements `conclave pipeline`. It checks files, starts runs, and shows
// their progress, state and result. Start with command.go; Kind describes pipeline runs
// for the commands that take an ID.
package pipeline

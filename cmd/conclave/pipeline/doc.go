// Package pipeline implements `conclave pipeline`: it checks files, starts runs, and shows
// their progress, state and result. Start with command.go; Kind describes the runs to the
// commands that take an ID.
package pipeline

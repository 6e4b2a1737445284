// Package progress shows the progress of a session to a person or in a log.
//
// The caller passes a Snapshot to a Display at each interval. On a terminal a Display
// redraws a compact block in place; for pipes, logs and scripts it writes one plain
// line per event. Both pass texts of models through Line, which removes control
// sequences.
//
// Start with Display; frame.go lays out the block, and agents.go the rows of the agents.
package progress

// Package export implements `conclave export`, which translates the record of a session
// for other tools: as OpenTelemetry spans, as an agent trajectory, or as JSON lines. Start
// with Command in command.go.
package export

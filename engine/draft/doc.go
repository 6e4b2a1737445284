// Package draft has the preparations that a model makes for a session, each with one
// structured call: evaluation criteria, personas and the parts of divided work. It
// also asks a model whether two answers are equal.
//
// A Form is a request and the check of its reply. [Make] makes a single request. After an
// invalid reply or a failed call it returns the form's fallback, so a preparation never ends
// a session. Agents have anonymous names in requests (agent1, agent2), in the byte order of
// their IDs.
//
// Start with Make in make.go.
package draft

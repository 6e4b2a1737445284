// Package offline is a model that is none: a small deterministic program behind
// loop.Model, for trying conclave out with no key and no network.
//
// It is a real client of the real engine. It knows nothing but the conversation
// and the tools it is given, calls those tools, and is judged like any other
// model: it writes a file and answers, looks at the others' answers and files,
// answers a second time, votes, stops or submits; as a step of a pipeline it jumps
// and calls where its prompt says, and ends with a text. What it says says that it
// is the offline model.
//
// There is no randomness, no clock and no state: the same request gets the same
// reply. The protocol that a team of them plays is described at Model; start
// there, in model.go.
package offline

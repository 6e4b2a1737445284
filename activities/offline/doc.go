// Package offline is a deterministic stand-in for a language model behind loop.Model, for trying conclave
// without a key or a network.
//
// It is a real client of the real engine: it sees only the conversation and the tools, calls those tools,
// and is judged like any other model. It writes a file and answers, reads the others' answers and files,
// answers a second time, votes, stops or submits. As a step of a pipeline it jumps and calls where its
// prompt tells it to, and ends with a text. Its texts say that they come from the offline model.
//
// It uses no randomness, clock or state: the same request gets the same reply. Start at Model in model.go,
// which describes the protocol of a team.
package offline

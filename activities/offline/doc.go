// Package offline is a deterministic stand-in for a language model behind loop.Model, for trying conclave
// without a key or a network. It sees only the conversation and the tools, and is judged like any other
// model. Its texts say that they come from the offline model.
//
// It uses no randomness, clock or state: the same request gets the same reply. Start at model in model.go,
// which describes the protocol of a team.
package offline

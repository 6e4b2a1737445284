// Package offline implements loop.Model without a language model, for trying conclave without a key
// or a network. It is deterministic: it uses no randomness, clock or state, so the same request
// gets the same reply. It knows only the conversation and the tools, and its texts say that they
// come from the offline model.
//
// Start at model in view.go, which describes how a team of offline models decides.
package offline

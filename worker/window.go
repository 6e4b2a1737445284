package worker

import (
	"context"

	"conclave/engine/config"
	"conclave/worker/prices"
)

// ServedWindow returns the context window of an agent's model in tokens according to its server, or
// 0 if the server does not state it.
func (m Models) ServedWindow(ctx context.Context, a config.Agent) int {
	client, _, _, err := m.client(a)
	if err != nil {
		return 0
	}
	return client.Window(ctx)
}

// valueOf returns the value of an optional number, or 0 if it is nil.
func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// Window returns the context window of an agent's model in tokens, or 0 if it is unknown.
func (m Models) Window(a config.Agent) int {
	tokens, _ := m.WindowFrom(a)
	return tokens
}

// Sources of a context window in a session. Sessions do not ask the server for it.
const (
	Configured = "configuration"
	Tabled     = "table" // the table of prices and windows
)

// WindowFrom returns the context window of an agent's model in tokens and its source, or 0 and ""
// if the window is unknown.
func (m Models) WindowFrom(a config.Agent) (tokens int, source string) {
	if a.Backend.Type == config.Offline {
		return 0, ""
	}
	backend, _, err := m.at(a.Backend)
	if err != nil {
		return 0, ""
	}
	if backend.ContextWindow != nil {
		return *backend.ContextWindow, Configured
	}
	known, _ := prices.Find(backend.BaseURL, backend.Model)
	if known.ContextWindow == 0 {
		return 0, ""
	}
	return known.ContextWindow, Tabled
}

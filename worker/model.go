package worker

import (
	"fmt"
	"os"

	"conclave/activities"
	"conclave/activities/offline"
	"conclave/activities/openai"
	"conclave/activities/tools"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// The environment of the OpenAI API, as its own clients read it.
const (
	KeyVariable     = "OPENAI_API_KEY"
	BaseURLVariable = "OPENAI_BASE_URL"

	// DefaultBaseURL is used when nothing names another.
	DefaultBaseURL = "https://api.openai.com/v1"
)

// Models builds models from configuration and the worker's environment. Keys
// are read here and nowhere else.
type Models struct {
	// Getenv reads the worker's environment; os.Getenv if nil.
	Getenv func(string) string
}

// Model builds the model of an agent.
func (m Models) Model(a config.Agent) (loop.Model, error) {
	switch {
	case a.Backend.Type == config.Offline:
		return offline.New(a.ID), nil
	case a.Backend.Provider != "":
		return nil, fmt.Errorf("this worker has no provider %q: providers are not available in this version", a.Backend.Provider)
	}
	backend := m.Resolve(a.Backend)
	key := ""
	if backend.APIKeyEnv != "" {
		if key = m.getenv(backend.APIKeyEnv); key == "" {
			return nil, &activities.MissingKeyError{Agent: a.ID, Variable: backend.APIKeyEnv}
		}
	}
	return openai.New(openai.Options{BaseURL: backend.BaseURL, APIKey: key, Model: backend.Model, Params: backend.Params})
}

// Resolve fills in where a backend without an address of its own is: the
// environment's server with the environment's key. A server of the user's own
// gets a key only if one is named for it.
func (m Models) Resolve(b config.Backend) config.Backend {
	if b.Type == config.Offline || b.Provider != "" || b.BaseURL != "" {
		return b
	}
	b.BaseURL = m.getenv(BaseURLVariable)
	if b.APIKeyEnv == "" && (b.BaseURL == "" || m.getenv(KeyVariable) != "") {
		b.APIKeyEnv = KeyVariable
	}
	if b.BaseURL == "" {
		b.BaseURL = DefaultBaseURL
	}
	return b
}

func (m Models) getenv(name string) string {
	if m.Getenv != nil {
		return m.Getenv(name)
	}
	return os.Getenv(name)
}

// openTools opens the file tools on a step's workspace.
func openTools(workspace string) (step.Tools, error) { return tools.Open(workspace) }

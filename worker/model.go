package worker

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/offline"
	"conclave/activities/openai"
	"conclave/engine/config"
	"conclave/engine/loop"
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

	// Providers are those of the operator's configuration, by name.
	Providers Providers

	servers *servers // what the models of all steps share; nil for nothing
}

// servers is what a worker knows of API servers, and its connections to those
// that no operator has configured. Models are made anew for every step.
type servers struct {
	refusals openai.Refusals
	client   *http.Client
}

func newServers() *servers {
	return &servers{client: &http.Client{Transport: newTransport()}}
}

// Model builds the model of an agent. Its error is an *activities.LackError if this
// worker lacks the agent's provider or key.
func (m Models) Model(a config.Agent) (loop.Model, error) {
	if a.Backend.Type == config.Offline {
		return offline.New(a.ID), nil
	}
	backend, provider, err := m.at(a.Backend)
	if err != nil {
		return nil, err
	}
	key := ""
	if backend.APIKeyEnv != "" {
		if key = m.getenv(backend.APIKeyEnv); key == "" {
			return nil, missingKey(a.ID, backend.APIKeyEnv)
		}
	}
	o := openai.Options{
		BaseURL: backend.BaseURL, APIKey: key, Model: backend.Model, Params: backend.Params,
		Price: priceOf(backend, provider), Waiting: attempt.Waiting,
	}
	if m.servers != nil {
		o.Refusals, o.HTTPClient = &m.servers.refusals, m.servers.client
	}
	if provider != nil {
		o.HTTPClient = provider.client
	}
	client, err := openai.New(o)
	if err != nil {
		return nil, err
	}
	return provider.limit(client), nil
}

// at settles where a backend is, and at which provider if it names one.
func (m Models) at(b config.Backend) (config.Backend, *Provider, error) {
	if b.Provider == "" {
		return m.Resolve(b), nil, nil
	}
	p, ok := m.Providers[b.Provider]
	if !ok {
		return b, nil, lack(activities.NoProvider, "this worker has no provider %q; %s", b.Provider,
			others(m.Providers, "it has none; an operator defines providers in the file of --worker-config"))
	}
	return p.resolve(b), p, nil
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

// MissingKeys are the variables that hold the keys of a team's models and are
// not set here, each with the agents that need it.
func (m Models) MissingKeys(t config.Team) map[string][]string {
	missing := map[string][]string{}
	for _, agent := range t.Agents {
		if agent.Backend.Type == config.Offline {
			continue
		}
		b, _, err := m.at(agent.Backend)
		if err == nil && b.APIKeyEnv != "" && m.getenv(b.APIKeyEnv) == "" {
			missing[b.APIKeyEnv] = append(missing[b.APIKeyEnv], agent.ID)
		}
	}
	return missing
}

// CheckProviders returns an *activities.LackError if an agent names a provider that
// is not configured.
func (m Models) CheckProviders(t config.Team) error {
	for _, agent := range t.Agents {
		if _, _, err := m.at(agent.Backend); err != nil {
			return fmt.Errorf("agent %s: %w", agent.ID, err)
		}
	}
	return nil
}

func (m Models) getenv(name string) string {
	if m.Getenv != nil {
		return m.Getenv(name)
	}
	return os.Getenv(name)
}

func lack(kind, format string, args ...any) error {
	return &activities.LackError{Type: kind, Err: fmt.Errorf(format, args...)}
}

func missingKey(agent, variable string) error {
	return lack(activities.MissingKey, "agent %s needs the environment variable %s, which is not set for this worker", agent, variable)
}

// others lists the configured names for an error; if there are none, it returns the
// given text.
func others[V any](configured map[string]V, none string) string {
	if len(configured) == 0 {
		return none
	}
	return "it has: " + strings.Join(slices.Sorted(maps.Keys(configured)), ", ")
}

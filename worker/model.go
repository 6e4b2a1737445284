package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/offline"
	"conclave/activities/openai"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/eval"
	"conclave/engine/files/filelock"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/text"
	"conclave/worker/cluster"
)

// Environment variables that are also used by OpenAI's own clients.
const (
	KeyVariable     = "OPENAI_API_KEY"
	baseURLVariable = "OPENAI_BASE_URL"
)

// Models builds models from their configuration and the worker's environment. No other type reads
// keys.
type Models struct {
	// Getenv reads the worker's environment. The default is os.Getenv.
	Getenv func(string) string

	// Keys are keys from a file of the user, by the names of their variables. The environment comes
	// first. They are in no process's environment.
	Keys map[string]string

	// Providers are the providers in the operator's configuration, by name.
	Providers providers

	// AtOnce makes calls to a server that is away fail immediately instead of waiting.
	AtOnce bool

	servers *servers         // shared by the models of all steps; nil for none
	metrics *cluster.Metrics // nil for none
	traces  *Tracer          // nil for none
}

// servers holds the connections and the known limitations of servers, which the models of all steps
// share.
type servers struct {
	refusals openai.Refusals
	outages  openai.Outages
	stagger  openai.Stagger
	client   *http.Client

	mu     sync.Mutex
	queues map[server]*queue // queues of models with max_concurrent_calls

	recordings map[[sha256.Size]byte]*eval.Recording // by the hash of their file
}

// readRecording reads the recorded answers of a file, once unless the file changes.
func (s *servers) readRecording(file string) (*eval.Recording, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256(data)
	if known := s.recordings[key]; known != nil {
		return known, nil
	}
	recording, err := eval.ReadRecording(file, data)
	if err == nil {
		s.recordings[key] = recording
	}
	return recording, err
}

// server identifies a model at an address.
type server struct{ url, model string }

func newServers() *servers {
	return &servers{client: &http.Client{Transport: newConnections()}, queues: map[server]*queue{}, recordings: map[[sha256.Size]byte]*eval.Recording{}}
}

// limitModel applies a backend's max_concurrent_calls to its model. If agents set different values,
// the last one applies to all of them.
func (s *servers) limitModel(b config.Backend, m loop.Model) loop.Model {
	if s == nil || b.MaxConcurrentCalls == nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := server{b.BaseURL, b.Model}
	q := s.queues[key]
	if q == nil {
		q = newQueue("the model "+b.Model, nil, nil)
		s.queues[key] = q
	}
	q.setConcurrent(*b.MaxConcurrentCalls)
	return limited{model: m, queue: q}
}

// Model builds an agent's model. It returns an *activities.LackError if this worker lacks the
// provider or the key.
func (m Models) Model(a config.Agent) (loop.Model, error) {
	if a.Backend.Type == config.Offline && a.Backend.Params[config.Targets] != nil {
		skilled, err := offline.Skilled(a.ID, a.Backend.Params)
		if err != nil {
			return nil, err
		}
		return m.observeModel(config.Offline, config.Offline, skilled), nil
	}
	if a.Backend.Type == config.Offline {
		return m.observeModel(config.Offline, config.Offline, offline.New(a.ID)), nil
	}
	if a.Backend.Type == config.Recorded {
		recording, err := cmp.Or(m.servers, newServers()).readRecording(fmt.Sprint(a.Backend.Params[config.RecordedData]))
		if err != nil {
			return nil, fmt.Errorf("read params.data of agent %s: %w; name a readable file of recorded answers", a.ID, err)
		}
		recorded, err := offline.Recorded(a.ID, a.Backend.Params, recording)
		return m.observeModel(config.Recorded, config.Recorded, recorded), err
	}
	client, provider, backend, err := m.openClient(a)
	if err != nil {
		return nil, err
	}
	observed := m.observeModel(cmp.Or(backend.Provider, backend.Known().Name), backend.Model, client)
	return m.servers.limitModel(backend, provider.limitModel(observed)), nil
}

// openClient returns the client of an agent's model without limits, the provider (nil if the backend
// names none), and the completed backend.
func (m Models) openClient(a config.Agent) (*openai.Client, *provider, config.Backend, error) {
	backend, provider, err := m.completeBackend(a.Backend)
	if err != nil {
		return nil, nil, backend, err
	}
	key := ""
	if backend.APIKeyEnv != "" {
		if key = m.readKey(backend.APIKeyEnv); key == "" {
			return nil, nil, backend, missingKey(a.ID, backend.APIKeyEnv)
		}
	}
	o := openai.Options{
		Wire:    openai.Wire(backend.Wire),
		BaseURL: backend.BaseURL, APIKey: key, Model: backend.Model, Params: backend.Params,
		Price: priceOf(backend), Waiting: reportWait, Replying: attempt.Replying, Patience: attempt.Patience,
		SilentTimeout: time.Duration(valueOf(backend.SilentTimeoutSeconds)) * time.Second, Images: backend.Images,
	}
	if m.AtOnce {
		o.Patience = func(context.Context, bool) time.Duration { return 0 }
	}
	known := backend.Known()
	o.KeyHeader, o.NativeList, o.NoStreamOptions, o.ShortCallIDs = known.KeyHeader, known.NativeList || o.Wire == openai.MessagesWire, known.NoStreamOptions, known.ShortCallIDs
	if m.servers != nil && backend.CacheStagger {
		o.Stagger = &m.servers.stagger
	}
	if m.servers != nil {
		o.Refusals, o.Outages, o.HTTPClient = &m.servers.refusals, &m.servers.outages, m.servers.client
	}
	if provider != nil {
		o.HTTPClient = provider.client
	}
	client, err := openai.New(o)
	return client, provider, backend, err
}

// reportWait reports that a step waits for a model's server, which is away or limits requests.
func reportWait(ctx context.Context, failed *llm.Error, until time.Time) (over func()) {
	w := coordination.Doing{Kind: coordination.RateLimited, Until: until, What: failed.Message}
	if failed.Outage() {
		w.Kind, w.Since = coordination.ModelAway, failed.Since
	} else {
		attempt.Responded(ctx)
	}
	return attempt.Waiting(ctx, w)
}

// completeBackend completes a backend and returns the provider that it names, if any.
func (m Models) completeBackend(b config.Backend) (config.Backend, *provider, error) {
	if b.Provider == "" {
		return m.Resolve(b), nil, nil
	}
	p, ok := m.Providers[b.Provider]
	if !ok {
		return b, nil, lackError(activities.NoProvider, "this worker has no provider %q; %s", b.Provider,
			listOthers(m.Providers, "it has none; an operator defines providers in the file of --worker-config"))
	}
	return p.resolveBackend(b), p, nil
}

// Resolve sets a missing address, key variable and form of requests of a backend to the defaults of its type; for
// openai, the environment may override the address. A backend with its own address uses a key only
// if its configuration names one. The data set of a skilled offline model and of recorded answers becomes an absolute path.
func (m Models) Resolve(b config.Backend) config.Backend {
	for kind, name := range map[string]string{config.Offline: config.Targets, config.Recorded: config.RecordedData} {
		file, named := b.Params[name].(string)
		if path, err := filepath.Abs(file); named && b.Type == kind && err == nil {
			b.Params = maps.Clone(b.Params)
			b.Params[name] = path
		}
	}
	if b.IsOffline() || b.Provider != "" || b.BaseURL != "" {
		return b
	}
	known, elsewhere := b.Known(), ""
	if known.Name == config.OpenAI {
		elsewhere = m.readVariable(baseURLVariable)
	}
	b.BaseURL = cmp.Or(elsewhere, known.BaseURL)
	if elsewhere == "" {
		b.Wire = cmp.Or(b.Wire, known.Wire)
	}
	if b.APIKeyEnv == "" {
		b.APIKeyEnv = m.keyVariable(known.KeyVariables, elsewhere == "")
	}
	return b
}

// keyVariable returns the first variable that is set or, if none is set and a key is required, the
// first variable.
func (m Models) keyVariable(variables []string, required bool) string {
	for _, name := range variables {
		if m.readKey(name) != "" {
			return name
		}
	}
	if !required || len(variables) == 0 {
		return ""
	}
	return variables[0]
}

// Services returns the known services whose key is set, each with its address and its variable, and
// that of OPENAI_BASE_URL, which may need no key.
func (m Models) Services() []config.Backend {
	var services []config.Backend
	for _, t := range config.BackendTypes() {
		b := m.Resolve(config.Backend{Type: t.Name})
		if !t.Local && b.BaseURL != "" && (b.APIKeyEnv == "" || m.readKey(b.APIKeyEnv) != "") {
			services = append(services, b)
		}
	}
	return services
}

// UsualType returns the type of a model that is named without one: that of the only service whose key
// is set, or else openai.
func (m Models) UsualType() string {
	if s := m.Services(); len(s) == 1 {
		return s[0].Type
	}
	return config.OpenAI
}

// ListedModel is a model in a server's list.
type ListedModel = openai.Listed

// List returns the models that the server of a type lists, in its order.
func (m Models) List(ctx context.Context, kind string) ([]ListedModel, error) {
	client, _, _, err := m.openClient(config.Agent{ID: kind, Backend: config.Backend{Type: kind, Model: kind}})
	if err != nil {
		return nil, fmt.Errorf("list the models of %s: %w", kind, err)
	}
	return client.List(ctx)
}

// MissingKeys returns a team's unset key variables and the agents that need each of them.
func (m Models) MissingKeys(t config.Team) map[string][]string {
	missing := map[string][]string{}
	for _, agent := range t.Models() {
		if agent.Backend.IsOffline() {
			continue
		}
		b, _, err := m.completeBackend(agent.Backend)
		if err == nil && b.APIKeyEnv != "" && m.readKey(b.APIKeyEnv) == "" {
			missing[b.APIKeyEnv] = append(missing[b.APIKeyEnv], agent.ID)
		}
	}
	return missing
}

func atLoopback(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && cluster.IsLoopback(u.Host)
}

// Host returns the host of a backend's server. It is empty if the backend has no server or if this
// worker lacks the provider.
func (m Models) Host(b config.Backend) string {
	backend, _, err := m.completeBackend(b)
	base, parseErr := url.Parse(backend.BaseURL)
	if err != nil || parseErr != nil || backend.IsOffline() {
		return ""
	}
	return base.Host
}

// NoCalls returns explanations for an agent's model that called no tool, and for one that wrote
// unreadable calls as text. Both include the remedy.
func (m Models) NoCalls(a config.Agent) (none, unread string) {
	host := m.Host(a.Backend)
	if host == "" {
		return "", ""
	}
	who := fmt.Sprintf("model %s at %s", a.Backend.Model, host)
	return who + " called no tool in any reply of this step (`conclave models check` tests it); " + m.ToolsRemedy(a.Backend),
		who + " tried to call a tool in text, which cannot be read as a call of an offered tool (`conclave models check` tests it); choose a larger model"
}

// ToolsRemedy returns advice on how to make a backend's model call tools.
func (m Models) ToolsRemedy(b config.Backend) string {
	if at, _, err := m.completeBackend(b); err == nil {
		b = at
	}
	return b.ToolsRemedy()
}

// CheckProviders returns an *activities.LackError for a provider that is not configured on this
// worker.
func (m Models) CheckProviders(t config.Team) error {
	for _, agent := range t.Models() {
		if _, _, err := m.completeBackend(agent.Backend); err != nil {
			return fmt.Errorf("agent %s: %w", agent.ID, err)
		}
	}
	return nil
}

func (m Models) readVariable(name string) string {
	if m.Getenv != nil {
		return m.Getenv(name)
	}
	return os.Getenv(name)
}

func (m Models) readKey(name string) string { return cmp.Or(m.readVariable(name), m.Keys[name]) }

// secrets returns the secret variables of the environment and of Keys as NAME=VALUE, for redaction.
func (m Models) secrets() []string {
	secrets := os.Environ()
	for name, value := range m.Keys {
		secrets = append(secrets, name+"="+value)
	}
	return secrets
}

func lackError(kind, format string, args ...any) error {
	return &activities.LackError{Type: kind, Err: fmt.Errorf(format, args...)}
}

func missingKey(agent, variable string) error {
	return lackError(activities.MissingKey, "agent %s needs the environment variable %s, which is not set for this worker", agent, variable)
}

// listOthers returns the configured names for an error message, or the text none if there are no
// names.
func listOthers[V any](configured map[string]V, none string) string {
	if len(configured) == 0 {
		return none
	}
	return "it has: " + strings.Join(slices.Sorted(maps.Keys(configured)), ", ")
}

// Local provides models and tools to steps that run outside a worker, as in `conclave step`.
type Local struct {
	scratch *filelock.Scratch
	models  Models
	tools   *Tools
}

// OpenLocal creates a temporary directory for workspaces. The caller must close the Local.
func OpenLocal(m Models, t *Tools) (*Local, error) {
	s, err := filelock.OpenScratch("", filelock.Worker)
	if err != nil {
		return nil, err
	}
	return &Local{scratch: s, models: m, tools: t}, nil
}

// Ports returns the ports for a step of an agent, except the store. It returns the error of
// Models.Model.
func (l *Local) Ports(a config.Agent) (step.Ports, error) {
	model, err := l.models.Model(a)
	if err != nil {
		return step.Ports{}, err
	}
	none, unread := l.models.NoCalls(a)
	return step.Ports{
		Model: model, Window: l.models.Window(a), NoCalls: none, UnreadCalls: unread, Now: time.Now, Scratch: l.scratch.Path,
		Tools:  localTools{l.tools, a},
		Redact: text.NewRedactor(text.SecretsOfEnvironment(slices.Concat(l.models.secrets(), l.tools.serverSecrets()))).Bytes,
	}, nil
}

// SharedServers returns the names of the agent's MCP servers with scope session. Local steps do not
// share them: each step starts its own.
func (l *Local) SharedServers(a config.Agent) []string {
	servers, err := l.tools.serversOf(a)
	if err != nil {
		return nil // Open reports the error
	}
	var names []string
	for _, s := range servers {
		if s.Shared {
			names = append(names, s.Name)
		}
	}
	return names
}

// Close removes remaining workspaces and the HOMEs of MCP servers.
func (l *Local) Close() {
	l.scratch.Close()
	l.tools.closeShared()
}

// ServedWindow returns the context window of an agent's model in tokens according to its server, or
// 0 if the server does not state it.
func (m Models) ServedWindow(ctx context.Context, a config.Agent) int {
	client, _, _, err := m.openClient(a)
	if err != nil {
		return 0
	}
	return client.Window(ctx)
}

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
	if a.Backend.IsOffline() {
		return 0, ""
	}
	backend, _, err := m.completeBackend(a.Backend)
	if err != nil {
		return 0, ""
	}
	if backend.ContextWindow != nil {
		return *backend.ContextWindow, Configured
	}
	known, _ := FindTariff(backend.BaseURL, backend.Model)
	if known.ContextWindow == 0 {
		return 0, ""
	}
	return known.ContextWindow, Tabled
}

package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"conclave/activities"
	"conclave/activities/openai"
	"conclave/activities/tools"
	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Settings is an operator's configuration of a worker.
type Settings struct {
	Providers          map[string]Provider    `json:"providers" doc:"The API servers that teams can name."`
	Teams              map[string]config.Team `json:"teams" doc:"The teams that sessions can name; default is used by a session that names none."`
	MCPServers         map[string]MCPServer   `json:"mcp_servers" doc:"The MCP servers that agents can name. They are programs of the operator: they run outside the sandbox."`
	Sandbox            sandboxSettings        `json:"sandbox" doc:"The sandbox of the agents' shell."`
	MaxConcurrentSteps int                    `json:"max_concurrent_steps" default:"32" min:"1" max:"10000" doc:"How many steps this worker runs at a time."`

	// HeartbeatTimeoutSeconds is nil for the default, which depends on where the worker runs.
	HeartbeatTimeoutSeconds *int `json:"heartbeat_timeout_seconds" min:"10" max:"3600" doc:"After how long without a heartbeat a step is given to another worker, in runs that begin with this worker: how soon a lost machine is noticed. By default 30, on a local stack 60."`

	Sources   map[string]Source     `json:"sources,omitempty" doc:"The files that a session or a pipeline starts from whose base is source:NAME, as they are when it starts."`
	Notify    []activities.Receiver `json:"notify,omitempty" doc:"Who is told of the ends of runs and of what they wait for."`
	PagesURL  string                `json:"pages_url,omitempty" doc:"Address of the conclave serve or dev that shows the runs of this worker; the links of notices lead there. Without it they lead to the pages of a local stack, else to the files of the run."`
	Approvals []approval.Rule       `json:"approvals,omitempty" doc:"Which tool calls run, wait for a person, or are refused, in every team: the first rule that fits decides. The rules of a team come after these and can only be stricter."`

	MetricsAddress string `json:"metrics_address,omitempty" doc:"Where the worker serves /metrics for Prometheus, /healthz and /readyz, as HOST:PORT or :PORT. They have no password: choose an address that only your own network reaches."`
}

// Provider is a server of the Chat Completions API. Its key is sent only to BaseURL.
type Provider struct {
	BaseURL   string         `json:"base_url,omitempty" doc:"Address of the server, up to and including /v1."`
	APIKeyEnv string         `json:"api_key_env,omitempty" doc:"Name of the worker's environment variable that holds the key; none sends no key."`
	Params    map[string]any `json:"params,omitempty" doc:"Parameters of every request; those of an agent come first."`
	Price     config.Price   `json:"price_per_million" doc:"What a million tokens cost, in US dollars. Models of different prices are different providers."`

	// ContextWindow is in tokens; nil if it is unknown.
	ContextWindow *int `json:"context_window" min:"256" max:"1000000000" doc:"How many tokens a conversation with a model of this provider can have, its reply included."`

	// The following are the limits of this worker, shared by all agents and sessions; nil means no
	// limit.
	RequestsPerMinute *int `json:"requests_per_minute" min:"1" max:"1000000000" doc:"How many model calls this worker makes in a minute."`
	TokensPerMinute   *int `json:"tokens_per_minute" min:"1" max:"1000000000000" doc:"How many input and output tokens this worker uses in a minute."`

	MaxConcurrentCalls   *int `json:"max_concurrent_calls" min:"1" max:"10000" doc:"How many model calls this worker makes at a time."`
	SilentTimeoutSeconds *int `json:"silent_timeout_seconds" min:"1" max:"86400" doc:"How long the server may be silent before a reply begins; null: 600."`
}

// MCPServer is a server of the Model Context Protocol: a program on standard input and output, or
// an address.
type MCPServer struct {
	Command string            `json:"command,omitempty" path:"program" doc:"The program of a server on standard input and output: an absolute path, a name in PATH, or a path that begins with ./ or ../ and is relative to this file."`
	Args    []string          `json:"args,omitempty" path:"argument" doc:"The program's arguments. ${CONCLAVE_WORKSPACE} is replaced by the path of the agent's workspace; an argument that begins with ./ or ../, or names a file beside this one, is made absolute."`
	Env     map[string]string `json:"env,omitempty" doc:"The program's environment, beside PATH and HOME; a value of the form ${NAME} is that of the worker's variable NAME. It gets no other variable of the worker."`
	URL     string            `json:"url,omitempty" doc:"Address of a server that is reached by streamable HTTP."`

	Type         string   `json:"type,omitempty" enum:"stdio,streamable-http" doc:"How the server is reached: stdio goes with command, streamable-http with url; it can be left out."`
	AllowedTools []string `json:"allowed_tools,omitempty" doc:"The tools that agents get, by their names at the server; without it all. A team can narrow them further."`
	ExcludeTools []string `json:"exclude_tools,omitempty" doc:"Tools that no agent gets, by their names at the server."`
	Scope        string   `json:"scope,omitempty" enum:"step,session" doc:"How long the server runs. step: it is started for each step, with the agent's workspace as CONCLAVE_WORKSPACE; session: the steps of a session on this worker share it, with a directory of its own there. By default step."`

	// TokenEnv names an environment variable, like api_key_env.
	TokenEnv string `json:"token_env,omitempty" doc:"Name of the worker's environment variable whose value is sent to url as a bearer token."`

	CallTimeoutSeconds int `json:"call_timeout_seconds" default:"120" min:"1" max:"3600" doc:"How long one tool call may take."`
}

// Definition returns the server in the form in which a team file defines one.
func (s MCPServer) Definition(name string) config.MCPServer {
	return config.MCPServer{
		Name: name, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Type: s.Type,
		AllowedTools: s.AllowedTools, ExcludeTools: s.ExcludeTools, Scope: s.Scope,
	}
}

// sandbox holds the limits of the agents' shell.
type sandboxSettings struct {
	Level          string        `json:"level" default:"full" enum:"full,landlock,off" doc:"How well commands have to be confined: full needs user namespaces; landlock leaves some attacks open; off confines nothing. conclave sandbox check tells what this host supports."`
	Network        []string      `json:"network,omitempty" doc:"The exact destinations that commands can reach, each as host:port, such as code.example:443, through a proxy. Without it commands have no network. Addresses that are local or private have to be named themselves."`
	TimeoutSeconds int           `json:"timeout_seconds" default:"600" min:"1" max:"86400" doc:"How long one command may run."`
	CPUSeconds     int           `json:"cpu_seconds" default:"600" min:"1" max:"86400" doc:"How much processor time one command may take, of all its processes together."`
	MemoryMB       int           `json:"memory_mb" default:"2048" min:"64" max:"1048576" doc:"How much memory the processes of one command may have together."`
	Processes      int           `json:"processes" default:"256" min:"8" max:"65536" doc:"How many processes and threads one command may have."`
	Toolchains     []string      `json:"toolchains,omitempty" doc:"Directories with programs beside the system's that commands may read and run, such as /opt/go."`
	Caches         cacheSettings `json:"caches" doc:"What lies, read-only, below the caches of build tools that every agent has for itself: own: nothing; warm: build products that conclave makes in the sandbox from the unchanged base; host: the cache of this worker's user, which commands can then read."`
	DiskMB         int           `json:"disk_mb" default:"1024" min:"1" max:"1048576" doc:"How much the workspace and the temporary files of one step may take."`
}

// cacheSettings has the origins of the lower layers of build caches.
type cacheSettings struct {
	Go        string `json:"go" default:"warm" enum:"own,warm,host" doc:"GOCACHE."`
	GoModules string `json:"go_modules" default:"own" enum:"own,host" doc:"GOMODCACHE. Without a network and the host's modules, only vendored ones can be compiled."`
	NPM       string `json:"npm" default:"own" enum:"own,host" doc:"npm's cache."`
	Pip       string `json:"pip" default:"own" enum:"own,host" doc:"pip's cache."`
	Cargo     string `json:"cargo" default:"own" enum:"own,host" doc:"The registry in CARGO_HOME."`
}

// DefaultSettings returns the settings of a worker that has no configuration file.
func DefaultSettings() Settings { return config.Defaults[Settings]() }

// LoadSettings reads a worker configuration in YAML or JSON. The errors in it are returned as
// config.Problems.
func LoadSettings(path string) (Settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("read the worker configuration: %w; it takes a file that can be read", err)
	}
	return config.Decode(path, data, config.Cluster.Beside(path), checkSettings)
}

// name matches the name of a provider or a team.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func checkSettings(s Settings, c *config.Decoder) {
	var providers []string // providers with valid names
	for _, n := range slices.Sorted(maps.Keys(s.Providers)) {
		key := c.Key("providers", n)
		if checkName(c, key, n, "provider") {
			providers = append(providers, n)
		}
		checkProvider(c, key, s.Providers[n])
	}
	servers := slices.Sorted(maps.Keys(s.MCPServers))
	for _, n := range slices.Sorted(maps.Keys(s.Teams)) {
		key := c.Key("teams", n)
		checkName(c, key, n, "team")
		checkTeam(c, key, s.Teams[n], providers, servers)
	}
	for _, n := range servers {
		server := s.MCPServers[n]
		c.Server(c.Key("mcp_servers", n), server.Definition(n), server.TokenEnv)
	}
	for i, dir := range s.Sandbox.Toolchains {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			c.Report(fmt.Sprintf("sandbox.toolchains[%d]", i), "not the absolute path of a directory; it takes one such as /opt/go")
		}
	}
	c.Approvals("approvals", s.Approvals)
	checkNetwork(s.Sandbox, c)
	checkSources(c, s.Sources)
	checkReceivers(c, s.Notify)
	if u, err := url.Parse(s.PagesURL); s.PagesURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		c.Report("pages_url", "not an http or https URL; it takes an address such as https://conclave.example.com")
	}
	checkAddress(c, "metrics_address", s.MetricsAddress)
}

func checkAddress(c *config.Decoder, key, address string) {
	if address == "" {
		return
	}
	_, port, err := net.SplitHostPort(address)
	if _, numeric := strconv.ParseUint(port, 10, 16); err != nil || numeric != nil {
		c.Report(key, "not an address to listen at: it takes HOST:PORT, such as 127.0.0.1:9464, or :9464 for all addresses of this host")
	}
}

// checkNetwork reports a list of destinations that the sandbox cannot enforce.
func checkNetwork(s sandboxSettings, c *config.Decoder) {
	for i, entry := range s.Network {
		if _, err := tools.ParseDestination(entry); err != nil {
			c.Report(fmt.Sprintf("sandbox.network[%d]", i), "%v", err)
		}
	}
	if len(s.Network) > 0 && s.Level != "full" {
		c.Report("sandbox.network", "needs sandbox.level full: only there commands have a network of their own")
	}
}

func checkName(c *config.Decoder, key, n, kind string) bool {
	if name.MatchString(n) {
		return true
	}
	c.Report(key, "not the name of a %s: up to 63 letters, digits, ., _ or -, the first a letter or digit", kind)
	return false
}

func checkProvider(c *config.Decoder, key string, p Provider) {
	if p.BaseURL == "" {
		c.Report(key+".base_url", "missing; it takes the address of the server, such as https://api.openai.com/v1")
	}
	c.API(key, p.BaseURL, p.APIKeyEnv, p.Params)
	c.Price(key+".price_per_million", p.Price)
}

func checkTeam(c *config.Decoder, key string, t config.Team, providers, servers []string) {
	if b := t.Orchestrator.Coordination.RoundEvaluator.Backend; b != nil && b.Provider != "" {
		checkDefined(c, key+".orchestrator.coordination.round_evaluator.backend.provider", b.Provider, "a provider", "providers", providers)
	}
	if b := t.Orchestrator.AgreeJudge.Backend; b != nil && b.Provider != "" {
		checkDefined(c, key+".orchestrator.agree_judge.backend.provider", b.Provider, "a provider", "providers", providers)
	}
	for i, a := range t.Agents {
		agent := fmt.Sprintf("%s.agents[%d]", key, i)
		if p := a.Backend.Provider; p != "" {
			checkDefined(c, agent+".backend.provider", p, "a provider", "providers", providers)
		}
		for j, s := range a.MCPServers {
			checkDefined(c, fmt.Sprintf("%s.mcp_servers[%d].name", agent, j), s.Name, "an MCP server", "mcp_servers", servers)
		}
	}
}

func checkDefined(c *config.Decoder, key, n, kind, section string, defined []string) {
	switch {
	case slices.Contains(defined, n):
	case len(defined) == 0:
		_, noun, _ := strings.Cut(kind, " ")
		c.Report(key, "there is no such %s; define it under %s", noun, section)
	default:
		c.Name(key, n, kind+" of this file", defined)
	}
}

// Configure applies the operator's settings. It does not overwrite fields that are set.
func (c *Config) Configure(s Settings) {
	c.Models.Providers = newProviders(s.Providers)
	if c.Tools == nil {
		c.Tools = NewTools(s)
	}
	if c.MaxConcurrentSteps == 0 {
		c.MaxConcurrentSteps = s.MaxConcurrentSteps
	}
	c.MetricsAddress, c.Sources, c.Receivers = s.MetricsAddress, s.Sources, s.Notify
	if s.PagesURL != "" {
		c.Pages = func() string { return s.PagesURL }
	}
	if s.HeartbeatTimeoutSeconds != nil {
		c.HeartbeatTimeout = time.Duration(*s.HeartbeatTimeoutSeconds) * time.Second
	}
	named := map[string]config.Team{}
	maps.Copy(named, s.Teams)
	if team, ok := c.Teams.Named[activities.DefaultTeam]; ok {
		named[activities.DefaultTeam] = team
	}
	c.Teams.Named = named
}

// CheckPrices returns the first error of Models.CheckPrices for the named teams.
func (c Config) CheckPrices() error {
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		if err := c.Models.CheckPrices(c.Teams.Named[name]); err != nil {
			return fmt.Errorf("use the team %s: %w", name, err)
		}
	}
	return nil
}

// Missing returns a sentence for each unset key variable and for each team that lacks tools.
func (c Config) Missing(ctx context.Context) []string {
	var keys, tools []string
	for _, name := range slices.Sorted(maps.Keys(c.Teams.Named)) {
		team := c.Teams.Named[name]
		needed := c.Models.MissingKeys(team)
		for _, variable := range slices.Sorted(maps.Keys(needed)) {
			keys = append(keys, fmt.Sprintf("the environment variable %s is not set; in sessions of the team %s, %s will wait for a worker that has it",
				variable, name, strings.Join(needed[variable], ", ")))
		}
		if err := c.Tools.Check(ctx, team); err != nil {
			tools = append(tools, fmt.Sprintf("sessions of the team %s cannot work here: %s", name, strings.TrimSuffix(err.Error(), ".")))
		}
	}
	return slices.Concat(keys, tools, missingReceivers(c.Receivers))
}

// providers are the API servers that agents can name.
type providers map[string]*provider

// provider is one API server. All models at it share its limits, connections and pauses. A nil
// provider stands for a server that the operator has not configured.
type provider struct {
	settings Provider
	queue    *queue
	client   *http.Client
}

func newProviders(configured map[string]Provider) providers {
	all := make(providers, len(configured))
	for name, p := range configured {
		q := newQueue("the provider "+name, p.RequestsPerMinute, p.TokensPerMinute)
		q.concurrent = valueOf(p.MaxConcurrentCalls)
		all[name] = &provider{settings: p, queue: q, client: &http.Client{Transport: newTransport(q)}}
	}
	return all
}

// resolveBackend completes a backend with the settings of its provider. The backend's own values
// take precedence. max_concurrent_calls is not copied, because all models of the provider share
// that limit.
func (p *provider) resolveBackend(b config.Backend) config.Backend {
	b.BaseURL, b.APIKeyEnv = p.settings.BaseURL, p.settings.APIKeyEnv
	params := map[string]any{}
	maps.Copy(params, p.settings.Params)
	maps.Copy(params, b.Params)
	b.Params = params
	b.ContextWindow = cmp.Or(b.ContextWindow, p.settings.ContextWindow)
	b.SilentTimeoutSeconds = cmp.Or(b.SilentTimeoutSeconds, p.settings.SilentTimeoutSeconds)
	if !b.PricePerMillion.Known() {
		b.PricePerMillion = p.settings.Price
	}
	return b
}

func (p *provider) limitModel(m loop.Model) loop.Model {
	if p == nil {
		return m
	}
	return limited{model: m, queue: p.queue}
}

// transport sends requests to a provider and counts them. If the server asks for a pause, all calls
// of the provider are paused.
type transport struct {
	next  http.RoundTripper
	queue *queue
}

// idleConnections is the number of connections that are kept open for later calls.
const idleConnections = 256

func newTransport(q *queue) transport { return transport{next: newConnections(), queue: q} }

func newConnections() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	return t
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if n, ok := req.Context().Value(requestCount{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	res, err := t.next.RoundTrip(req)
	if err == nil && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		if d := openai.RetryAfter(res.Header, time.Now()); d > 0 {
			t.queue.pauseCalls(d)
		}
	}
	return res, err
}

// limited is a model whose calls wait for their turn in a queue.
type limited struct {
	model loop.Model
	queue *queue
}

// requestCount is the context key of the number of requests that a call has sent.
type requestCount struct{}

// Generate waits until the limits allow the estimated input, then calls the model. Usage above the
// estimate delays later calls.
func (l limited) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	began, expected := time.Now(), inputTokens(req)
	if err := l.queue.awaitTurn(ctx, callerOf(ctx), expected); err != nil {
		return llm.Reply{}, err
	}
	defer l.queue.endCall()
	waited := time.Since(began)
	var requests atomic.Int64
	reply, err := l.model.Generate(context.WithValue(ctx, requestCount{}, &requests), req)
	reply.Waited += waited
	l.queue.chargeExcess(max(0, int(requests.Load())-1), l.excessTokens(ctx, expected, reply.Usage, err))
	return reply, err
}

// excessTokens returns the number of tokens used in addition to the expected ones, or 0 if the
// usage is unknown.
func (l limited) excessTokens(ctx context.Context, expected int, u llm.Usage, err error) int {
	used := int(u.InputTokens + u.OutputTokens)
	if used == 0 && (err == nil || ctx.Err() != nil) {
		return 0
	}
	return used - l.queue.tokens.atMost(expected)
}

// inputTokens returns a low estimate of a request's tokens, since a token has three to four bytes
// of text.
func inputTokens(req llm.Request) int {
	const bytesPerToken = 4
	size := 0
	for _, m := range req.Messages {
		size += len(m.Content)
		for _, call := range m.ToolCalls {
			size += len(call.Arguments)
		}
	}
	for _, tool := range req.Tools {
		size += len(tool.Description) + len(tool.Parameters)
	}
	return 1 + size/bytesPerToken
}

package settings

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/activities/sandbox/egress"
	"conclave/engine/config"
)

// Settings is an operator's configuration of a worker.
type Settings struct {
	Providers          map[string]Provider    `json:"providers" doc:"The API servers that teams can name."`
	Teams              map[string]config.Team `json:"teams" doc:"The teams that sessions can name; default is used by a session that names none."`
	MCPServers         map[string]MCPServer   `json:"mcp_servers" doc:"The MCP servers that agents can name. They are programs of the operator: they run outside the sandbox."`
	Sandbox            sandbox                `json:"sandbox" doc:"The sandbox of the agents' shell."`
	MaxConcurrentSteps int                    `json:"max_concurrent_steps" default:"32" min:"1" max:"10000" doc:"How many steps this worker runs at a time."`

	// HeartbeatTimeoutSeconds is nil for the default, which depends on where the worker runs.
	HeartbeatTimeoutSeconds *int `json:"heartbeat_timeout_seconds" min:"10" max:"3600" doc:"After how long without a heartbeat a step is given to another worker, in runs that begin with this worker: how soon a lost machine is noticed. By default 30, on a local stack 60."`

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
type sandbox struct {
	Level          string   `json:"level" default:"full" enum:"gvisor,full,landlock,off" doc:"How well commands have to be confined: gvisor needs the program runsc; full needs user namespaces; landlock leaves some attacks open; off confines nothing. conclave sandbox check tells what this host supports."`
	Network        []string `json:"network,omitempty" doc:"The exact destinations that commands can reach, each as host:port, such as code.example:443, through a proxy. Without it commands have no network. Addresses that are local or private have to be named themselves."`
	TimeoutSeconds int      `json:"timeout_seconds" default:"600" min:"1" max:"86400" doc:"How long one command may run."`
	CPUSeconds     int      `json:"cpu_seconds" default:"600" min:"1" max:"86400" doc:"How much processor time one command may take, of all its processes together."`
	MemoryMB       int      `json:"memory_mb" default:"2048" min:"64" max:"1048576" doc:"How much memory the processes of one command may have together."`
	Processes      int      `json:"processes" default:"256" min:"8" max:"65536" doc:"How many processes and threads one command may have."`
	Toolchains     []string `json:"toolchains,omitempty" doc:"Directories with programs beside the system's that commands may read and run, such as /opt/go."`
	DiskMB         int      `json:"disk_mb" default:"1024" min:"1" max:"1048576" doc:"How much the workspace and the temporary files of one step may take."`
}

// Default returns the settings of a worker that has no configuration file.
func Default() Settings { return config.Defaults[Settings]() }

// Load reads a worker configuration in YAML or JSON. The errors in it are returned as
// config.Problems.
func Load(path string) (Settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("read the worker configuration: %w; it takes a file that can be read", err)
	}
	return parse(path, data)
}

func parse(name string, data []byte) (Settings, error) {
	return config.Decode(name, data, config.Cluster.Beside(name), check)
}

// name matches the name of a provider or a team.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// check reports problems that tags cannot express.
func check(s Settings, c *config.Decoder) {
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
	checkNetwork(s.Sandbox, c)
	checkAddress(c, "metrics_address", s.MetricsAddress)
}

// checkAddress reports a listen address without a valid port.
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
func checkNetwork(s sandbox, c *config.Decoder) {
	for i, entry := range s.Network {
		if _, err := egress.ParseEntry(entry); err != nil {
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

// checkTeam reports providers and MCP servers that a team names but the file does not define.
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

// checkDefined reports a name that its section does not define.
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

package settings

import "conclave/engine/config"

// Settings are what an operator says about a worker. The zero value says
// nothing.
type Settings struct {
	Providers          map[string]Provider    `json:"providers" doc:"The API servers that teams can name."`
	Teams              map[string]config.Team `json:"teams" doc:"The teams that sessions can name; default is used by a session that names none."`
	MCPServers         map[string]any         `json:"mcp_servers" doc:"The MCP servers that agents can name."`
	Sandbox            map[string]any         `json:"sandbox" doc:"The limits of the agents' shell."`
	MaxConcurrentSteps int                    `json:"max_concurrent_steps" default:"32" min:"1" max:"10000" doc:"How many steps this worker runs at a time."`
	MetricsAddress     string                 `json:"metrics_address,omitempty" doc:"Where Prometheus finds the worker's metrics."`
}

// Provider is an API server of the Chat Completions API. Its key never leaves
// the worker's environment, and is sent to BaseURL only.
type Provider struct {
	BaseURL   string         `json:"base_url,omitempty" doc:"Address of the server, up to and including /v1."`
	APIKeyEnv string         `json:"api_key_env,omitempty" doc:"Name of the worker's environment variable that holds the key; none sends no key."`
	Params    map[string]any `json:"params,omitempty" doc:"Parameters of every request; those of an agent come first."`
	Price     Price          `json:"price_per_million" doc:"What a million tokens cost, in US dollars. Models of different prices are different providers."`

	// The limits of this worker, whatever number of agents and sessions share
	// them; nil for none.
	RequestsPerMinute *int `json:"requests_per_minute" min:"1" max:"1000000000" doc:"How many model calls this worker makes in a minute."`
	TokensPerMinute   *int `json:"tokens_per_minute" min:"1" max:"1000000000000" doc:"How many input and output tokens this worker uses in a minute."`
}

// Price is in US dollars per million tokens. It is known if Input and Output are.
type Price struct {
	Input       *float64 `json:"input" min:"0" max:"1000000" doc:"Input tokens that were not cached."`
	CachedInput *float64 `json:"cached_input" min:"0" max:"1000000" doc:"Cached input tokens; as input if not given."`
	Output      *float64 `json:"output" min:"0" max:"1000000" doc:"Output tokens, reasoning included."`
}

// Known says whether costs can be computed.
func (p Price) Known() bool { return p.Input != nil && p.Output != nil }

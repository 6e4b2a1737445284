package config

import (
	"fmt"
	"reflect"
	"slices"
)

// The types of a Backend.
const (
	OpenAI  = "openai"  // a server of the Chat Completions API
	Offline = "offline" // the built-in deterministic model: no key, no network
)

// DefaultModel is the model of the built-in team.
const DefaultModel = "gpt-5.2"

// MaxAgents is the largest number of agents in a team.
const MaxAgents = 26

// Team is the configuration of a team.
//
// The tags of its fields, here and below, are the specification of the keys:
// json is the key, default its default (none: absent, or null for a pointer),
// enum its choices, min and max its range, doc its meaning. A key that is a
// pointer may be null. Durations are in whole seconds.
type Team struct {
	Agents       []Agent      `json:"agents" doc:"The members of the team, 1 to 26."`
	Orchestrator Orchestrator `json:"orchestrator" doc:"How the team comes to a decision."`
	Timeouts     Timeouts     `json:"timeout_settings" doc:"Limits of time, in seconds."`
}

// Agent is one member of a team.
type Agent struct {
	ID            string      `json:"id" doc:"The agent's name, unique in the team: a lower-case letter, then up to 31 lower-case letters, digits, _ or -. Models never see it."`
	Backend       Backend     `json:"backend" doc:"The model behind the agent."`
	SystemMessage string      `json:"system_message,omitempty" doc:"The agent's own instructions, put before those of the team."`
	Subtask       string      `json:"subtask,omitempty" doc:"The agent's part of the work in decomposition mode; required there, refused elsewhere."`
	MCPServers    []MCPServer `json:"mcp_servers,omitempty" shorthand:"name" doc:"MCP servers whose tools the agent gets: names from the worker's configuration, or, in files for local runs, definitions."`
	Tools         Tools       `json:"tools" doc:"The built-in tools the agent gets."`
}

// Backend is the model behind an agent. A Backend with neither Provider nor
// BaseURL is the worker's own server of the OpenAI API.
type Backend struct {
	Type      string         `json:"type" default:"openai" enum:"openai,offline" doc:"openai is any server of the Chat Completions API; offline is the built-in deterministic model, which needs neither key nor network."`
	Provider  string         `json:"provider,omitempty" doc:"A provider of the worker's configuration."`
	Model     string         `json:"model,omitempty" doc:"The model's name as the server knows it; required for openai."`
	BaseURL   string         `json:"base_url,omitempty" doc:"Address of the server, such as http://127.0.0.1:11434/v1. Only in files for local runs."`
	APIKeyEnv string         `json:"api_key_env,omitempty" doc:"Name of the environment variable that holds the API key, ending in _KEY or _TOKEN. Only in files for local runs. A base_url of its own gets no key unless one is named here."`
	Params    map[string]any `json:"params,omitempty" doc:"Parameters that are passed through to the API, such as temperature."`
}

// Tools says which built-in tools an agent gets.
type Tools struct {
	Files bool `json:"files" default:"true" doc:"Read, write, edit, copy, list and search files in the agent's workspace."`
	Shell bool `json:"shell" default:"false" doc:"Run commands in the agent's workspace, confined by the worker's sandbox: no network, nothing outside the workspace."`
}

// Agent returns the agent with the given ID.
func (t Team) Agent(id string) (Agent, bool) {
	i := slices.IndexFunc(t.Agents, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		return Agent{}, false
	}
	return t.Agents[i], true
}

// Default returns the built-in team: agent_a, agent_b and agent_c on
// DefaultModel, everything else at its default.
func Default() Team {
	var t Team
	setDefaults(reflect.ValueOf(&t).Elem())
	for _, letter := range "abc" {
		var a Agent
		setDefaults(reflect.ValueOf(&a).Elem())
		a.ID = fmt.Sprintf("agent_%c", letter)
		a.Backend.Model = DefaultModel
		t.Agents = append(t.Agents, a)
	}
	return t
}

// Offline returns the team with the built-in deterministic model behind every
// agent. It uses neither a shell nor MCP servers, which could need a network.
func (t Team) Offline() Team {
	t.Agents = slices.Clone(t.Agents)
	for i := range t.Agents {
		t.Agents[i].Backend = Backend{Type: Offline}
		t.Agents[i].MCPServers, t.Agents[i].Tools.Shell = nil, false
	}
	return t
}

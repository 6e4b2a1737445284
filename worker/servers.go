package worker

import (
	"maps"
	"slices"
	"time"

	"conclave/activities"
	"conclave/activities/mcp"
	"conclave/engine/config"
	"conclave/worker/settings"
)

// findPrograms returns an error if the program of an agent's MCP server is not installed here.
func (t *Tools) findPrograms(a config.Agent) error {
	servers, err := t.serversOf(a)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := s.Find(); err != nil {
			return lack(activities.NoServer, "%w", err)
		}
	}
	return nil
}

// FindProgram returns an error if the program of an MCP server defined in a file is not installed
// here. It ignores unset variables.
func (t *Tools) FindProgram(s config.MCPServer) error {
	if !s.Defines() {
		return nil
	}
	err := t.findPrograms(config.Agent{MCPServers: []config.MCPServer{s}})
	if activities.Lacks(err, activities.MissingKey) {
		return nil
	}
	return err
}

// serversOf returns an agent's MCP servers. A local team file may define them; otherwise they are
// the operator's.
func (t *Tools) serversOf(a config.Agent) ([]mcp.Server, error) {
	var servers []mcp.Server
	for _, named := range a.MCPServers {
		definition := settings.MCPServer{Command: named.Command, Args: named.Args, Env: named.Env, URL: named.URL, Scope: named.Scope}
		if !named.Defines() {
			var ok bool
			if definition, ok = t.settings.MCPServers[named.Name]; !ok {
				return nil, lack(activities.NoServer, "this worker has no MCP server %q; %s", named.Name,
					others(t.settings.MCPServers, "it has none; an operator defines MCP servers in the file of --worker-config, a team file for local runs may define its own"))
			}
		}
		s, err := t.server(a.ID, named.Name, definition)
		if err != nil {
			return nil, err
		}
		s.Allowed = bothAllow(definition.AllowedTools, named.AllowedTools)
		s.Excluded = slices.Concat(definition.ExcludeTools, named.ExcludeTools)
		servers = append(servers, s)
	}
	return servers, nil
}

// bothAllow returns the tools that are on both lists. An empty list allows all tools.
func bothAllow(operator, team []string) []string {
	switch {
	case len(operator) == 0:
		return team
	case len(team) == 0:
		return operator
	}
	both := []string{}
	for _, tool := range team {
		if slices.Contains(operator, tool) {
			both = append(both, tool)
		}
	}
	return both
}

// server completes the definition of a server from the worker's environment.
func (t *Tools) server(agent, name string, d settings.MCPServer) (mcp.Server, error) {
	s := mcp.Server{
		Name: name, Command: d.Command, Args: d.Args, URL: d.URL, Shared: d.Scope == config.ScopeSession,
		CallTimeout: time.Duration(d.CallTimeoutSeconds) * time.Second,
	}
	if len(d.Env) > 0 {
		s.Env = make(map[string]string, len(d.Env))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Env)) {
		value := d.Env[key]
		if variable, ok := config.Reference(value); ok && variable != mcp.Workspace {
			if value = t.getenv(variable); value == "" {
				return s, missingKey(agent, variable)
			}
		}
		s.Env[key] = value
	}
	if d.TokenEnv != "" {
		if s.Token = t.getenv(d.TokenEnv); s.Token == "" {
			return s, missingKey(agent, d.TokenEnv)
		}
	}
	return s, nil
}

// variables returns the values that are passed to a server, as NAME=VALUE.
func variables(s mcp.Server) []string {
	var all []string
	for name, value := range s.Env {
		all = append(all, name+"="+value)
	}
	if s.Token != "" {
		all = append(all, "MCP_TOKEN="+s.Token)
	}
	return all
}

package settings

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"conclave/engine/config"
)

// name matches the name of a provider or a team.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// check reports the problems that tags cannot express.
func check(s Settings, c *config.Decoder) {
	var providers []string // with valid names
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
		checkTeam(c, key, s.Teams[n], providers)
		checkServers(c, key, s.Teams[n], servers)
	}
	for _, n := range slices.Sorted(maps.Keys(s.MCPServers)) {
		server := s.MCPServers[n]
		c.Server(c.Key("mcp_servers", n), server.definition(n), server.TokenEnv)
	}
	for i, dir := range s.Sandbox.Toolchains {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			c.Report(fmt.Sprintf("sandbox.toolchains[%d]", i), "not the absolute path of a directory; it takes one such as /opt/go")
		}
	}
	for key, given := range map[string]bool{
		"sandbox.network": len(s.Sandbox.Network) > 0, "metrics_address": s.MetricsAddress != "",
	} {
		if given {
			c.Report(key, "not available in this version; remove the key")
		}
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
	price := key + ".price_per_million"
	switch {
	case p.Price.Known() || p.Price == Price{}:
	case p.Price.Input == nil:
		c.Report(price, "no price for input; a cost needs the prices of input and output")
	default:
		c.Report(price, "no price for output; a cost needs the prices of input and output")
	}
}

// checkTeam reports unknown providers.
func checkTeam(c *config.Decoder, key string, t config.Team, providers []string) {
	for i, a := range t.Agents {
		key := fmt.Sprintf("%s.agents[%d].backend.provider", key, i)
		switch p := a.Backend.Provider; {
		case p == "" || slices.Contains(providers, p):
		case len(providers) == 0:
			c.Report(key, "there is no such provider; define it under providers")
		default:
			c.Name(key, p, "a provider of this file", providers)
		}
	}
}

// checkServers reports unknown MCP servers.
func checkServers(c *config.Decoder, key string, t config.Team, servers []string) {
	for i, a := range t.Agents {
		for j, s := range a.MCPServers {
			key := fmt.Sprintf("%s.agents[%d].mcp_servers[%d].name", key, i, j)
			switch {
			case slices.Contains(servers, s.Name):
			case len(servers) == 0:
				c.Report(key, "there is no such MCP server; define it under mcp_servers")
			default:
				c.Name(key, s.Name, "an MCP server of this file", servers)
			}
		}
	}
}

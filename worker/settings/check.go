package settings

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
		checkTeam(c, key, s.Teams[n], providers, servers)
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

// checkTeam reports unknown providers and MCP servers.
func checkTeam(c *config.Decoder, key string, t config.Team, providers, servers []string) {
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

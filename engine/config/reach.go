package config

// Reach is how far a configuration may reach: whether it may define the
// addresses, keys and programs it uses, or only name those of the worker.
type Reach int

const (
	// Local is a file of the person who also runs the worker.
	Local Reach = iota
	// Cluster is the input of a session, or a team that is sent as one. Whoever
	// may start a session must not be able to send a key to an address of their
	// own, or run a program outside the sandbox.
	Cluster
)

// checkReach refuses what is beyond the reach of an agent's configuration.
func (d *decoder) checkReach(key string, a Agent) {
	if d.reach == Local {
		return
	}
	for name, given := range map[string]bool{"base_url": a.Backend.BaseURL != "", "api_key_env": a.Backend.APIKeyEnv != ""} {
		if given {
			d.reportKey(key+".backend."+name, "not accepted here: a session on a cluster can name the worker's providers, not define one; set backend.provider to a provider of the worker's configuration")
		}
	}
	for i, s := range a.MCPServers {
		if s.Defines() {
			d.reportKey(nth(key+".mcp_servers", i), "not accepted here: a session on a cluster can name the worker's MCP servers, not define one; give the name of one in the worker's configuration")
		}
	}
}

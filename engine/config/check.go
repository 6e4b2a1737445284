package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// agentID is the form of an agent's ID.
var agentID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// reservedParams are the fields of a request that a configuration cannot set:
// they belong to the client, or would change the form of the response.
var reservedParams = []string{"model", "messages", "tools", "stream_options", "n"}

// check finds what is wrong beyond a single key's type and range.
func (d *decoder) check(t Team) {
	d.checkAgents(t.Agents)
	for i, a := range t.Agents {
		key := nth("agents", i)
		d.checkBackend(key+".backend", a.Backend)
		d.checkServers(key+".mcp_servers", a.MCPServers)
		d.checkReach(key, a)
	}
	d.checkOrchestrator(t)
}

// nth is the key of an item of a list.
func nth(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// reported says whether a key has a problem already, so that its value means
// nothing.
func (d *decoder) reported(key string) bool { return d.wrongs[key] }

func (d *decoder) checkAgents(agents []Agent) {
	switch {
	case len(agents) == 0 && !d.reported("agents"):
		d.reportKey("agents", "no agents; a team has 1 to %d of them, each with an id and a backend", MaxAgents)
	case d.single && len(agents) > 1:
		d.reportKey(nth("agents", 1), "%d agents are too many; a step is of exactly one, the only one under agents or agent", len(agents))
	case len(agents) > MaxAgents:
		d.reportKey(nth("agents", MaxAgents), "%d agents are too many; a team has at most %d", len(agents), MaxAgents)
	}
	first := map[string]int{}
	for i, a := range agents {
		key := nth("agents", i) + ".id"
		_, given := d.places[key]
		earlier, taken := first[a.ID]
		switch {
		case d.reported(key), d.reported(nth("agents", i)):
		case !given && d.single:
		case !given:
			d.reportKey(key, "missing; every agent has an id of its own, such as agent_%c", 'a'+i%MaxAgents)
		case !agentID.MatchString(a.ID):
			d.reportKey(key, "%s is not an agent id: a lower-case letter, then up to 31 lower-case letters, digits, _ or -", quote(a.ID))
		case taken:
			d.reportKey(key, "%s is the id of the agent on line %d already; every agent has its own", quote(a.ID), d.at(nth("agents", earlier)+".id").line)
		default:
			first[a.ID] = i
		}
	}
}

func (d *decoder) checkBackend(key string, b Backend) {
	broken := d.reported(key) || d.reported(key+".type") || d.reported(strings.TrimSuffix(key, ".backend"))
	if b.Type == OpenAI && strings.TrimSpace(b.Model) == "" && !broken && !d.reported(key+".model") {
		d.reportKey(key+".model", "missing; name the model as the server knows it, such as %s", DefaultModel)
	}
	d.checkName(key+".model", b.Model)
	d.checkName(key+".provider", b.Provider)
	d.checkAPI(key, b.BaseURL, b.APIKeyEnv, b.Params)
}

// checkAPI checks what an API server is reached with: its address, the variable
// of its key and the parameters of requests. Empty values are none.
func (d *decoder) checkAPI(key, baseURL, keyEnv string, params map[string]any) {
	if keyEnv != "" {
		if wrong := keyVariable(keyEnv); wrong != "" {
			d.reportKey(key+".api_key_env", "%s", wrong)
		}
	}
	if baseURL != "" {
		if wrong := address(baseURL); wrong != "" {
			d.reportKey(key+".base_url", "%s", wrong)
		}
	}
	for _, name := range reservedParams {
		if _, ok := params[name]; ok {
			d.reportKey(join(key+".params", name), "not a parameter to set: it belongs to conclave; remove it")
		}
	}
	d.checkSecrets(key+".params", params)
}

// checkName checks a name of the user's own, which is shown on terminals.
func (d *decoder) checkName(key, name string) {
	if strings.ContainsFunc(name, unicode.IsControl) {
		d.reportKey(key, "a line break or another control character in a name; remove it")
	}
	d.checkSecrets(key, name)
}

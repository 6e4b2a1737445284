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

// checkOrchestrator finds what its keys say about each other and about the
// agents. Keys that have no meaning beside others are accepted: a mode or a
// strategy can be tried out by changing one line. What contradicts itself is
// not.
func (d *decoder) checkOrchestrator(t Team) {
	const section = "orchestrator."
	o := t.Orchestrator
	d.checkPresenter(section+"presenter_agent", t)
	d.checkSubtasks(t)
	if o.DisableInjection && o.UpdateMode == restartUpdates && !d.reported(section+"disable_injection") {
		d.reportKey(section+"disable_injection", "agents at work are told of nothing, but update_mode is restart, which begins their step again for it; remove one of the two")
	}
	if usd := o.Budget.MaxCostUSD; usd != nil && *usd == 0 && !d.reported(section+"budget.max_cost_usd") {
		d.reportKey(section+"budget.max_cost_usd", "nothing can be done for 0 dollars; give an amount above 0, or null for no limit")
	}
	criteria := o.Coordination.EvaluationCriteriaGenerator
	if criteria.MinCriteria > criteria.MaxCriteria {
		d.reportKey(section+"coordination.evaluation_criteria_generator", "min_criteria is %d and max_criteria %d; the first is at most the second", criteria.MinCriteria, criteria.MaxCriteria)
	}
}

// checkPresenter demands that the presenter is one of the agents.
func (d *decoder) checkPresenter(key string, t Team) {
	var ids []string // those of agents that may be shown
	for _, a := range t.Agents {
		if agentID.MatchString(a.ID) && !looksSecret(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	if p := t.Orchestrator.PresenterAgent; p != nil && len(ids) > 0 && !d.reported(key) {
		if _, ok := t.Agent(*p); !ok {
			d.reportKey(key, "%s is not an agent of the team; %s", quote(*p), choice(*p, ids))
		}
	}
}

// checkSubtasks demands one of every agent where the work is divided, and none
// where it is not.
func (d *decoder) checkSubtasks(t Team) {
	if d.reported("orchestrator.coordination_mode") {
		return
	}
	why := "the task decomposer is not available in this version: give every agent a subtask"
	if !t.Orchestrator.Coordination.TaskDecomposer.Enabled {
		why = "the task decomposer is switched off: give every agent a subtask"
	}
	for i, a := range t.Agents {
		agent := nth("agents", i)
		key := agent + ".subtask"
		missing := strings.TrimSpace(a.Subtask) == ""
		divided := t.Orchestrator.CoordinationMode == decomposition
		switch {
		case d.reported(agent), d.reported(key):
		case divided && missing:
			d.reportKey(key, "missing; %s", why)
		case !divided && !missing:
			d.reportKey(key, "a part of the work, but in voting mode every agent answers the whole query; set orchestrator.coordination_mode to decomposition, or remove the subtask")
		}
	}
}

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

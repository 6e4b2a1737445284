package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"conclave/engine/approval"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

// Reach decides whether a configuration may define addresses, keys and programs, or may only
// name those of the worker.
type Reach struct {
	cluster bool
	dir     string // the directory of the configuration's file; empty without one
}

var (
	// Local is a configuration of the person who also runs the worker.
	Local = Reach{}
	// Cluster is the input of a session. Its author must not be able to send a key to
	// an address of their own, or to run a program outside the sandbox.
	Cluster = Reach{cluster: true}
)

// Beside returns the reach of a configuration that is read from a file: the relative paths of
// programs in it, and of their arguments, are made absolute from the directory of the file.
func (r Reach) Beside(file string) Reach {
	if dir, err := filepath.Abs(filepath.Dir(file)); err == nil {
		r.dir = dir
	}
	return r
}

// locatePath makes a value absolute that begins with ./ or ../, or names a file beside the
// configuration's. Of an option among arguments, that is what follows the =; a bare name of
// a program is that of a file only if PATH lacks it. Kind is the value of the tag path.
func (r Reach) locatePath(value, kind string) string {
	if r.dir == "" || kind == "" || filepath.IsAbs(value) {
		return value
	}
	option, of, assigned := strings.Cut(value, "=")
	isOption, path := kind == "argument" && strings.HasPrefix(value, "-"), filepath.Join(r.dir, value)
	_, missing := exec.LookPath(value)
	info, err := os.Stat(path)
	switch {
	case isOption && !assigned:
		return value
	case isOption:
		return option + "=" + r.locatePath(of, kind)
	case strings.HasPrefix(value, "./"), strings.HasPrefix(value, "../"):
		return path
	case err != nil, !info.Mode().IsRegular(), kind == "program" && missing == nil && filepath.Base(value) == value:
		return value
	}
	return path
}

// maxID bounds an agent's ID and the name of a step, in bytes.
const maxID = 32

// agentID is the form of an agent's ID and of a step's name.
var agentID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

const idForm = "a lower-case letter, then up to 31 lower-case letters, digits, _ or -"

// reservedParams are the fields of a request that params cannot set, because the client sets
// them or because they would change the form of the response.
var reservedParams = []string{"model", "messages", "tools", "stream_options", "n"}

// checkTeam reports violations beyond a single key's type and range. Section is the key of
// the team, or "" for a whole document.
func (d *Decoder) checkTeam(section string, t Team) {
	list := joinKey(section, "agents")
	switch {
	case len(t.Agents) == 0:
		d.Report(list, "no agents; a team has 1 to %d of them, each with an id and a backend", MaxAgents)
	case d.single && len(t.Agents) > 1:
		d.Report(itemKey(list, 1), "%d agents are too many; a step has exactly one, under agents or agent", len(t.Agents))
	}
	d.checkAgents(list, t.Agents)
	d.checkSubtasks(section, t)
	d.checkOrchestrator(joinKey(section, "orchestrator"), t)
}

func (d *Decoder) checkAgents(list string, agents []Agent) {
	if len(agents) > MaxAgents {
		key := itemKey(list, MaxAgents)
		d.reportAt(d.nodeOf(key), key, "%d agents are too many; a team has at most %d", len(agents), MaxAgents)
	}
	first := map[string]int{}
	for i, a := range agents {
		key := itemKey(list, i)
		id := key + ".id"
		_, given := d.decoded[id]
		earlier, taken := first[a.ID]
		switch {
		case !given && d.single:
		case !given:
			d.Report(id, "missing; every agent has an id of its own, such as agent_%c", 'a'+i%MaxAgents)
		case !agentID.MatchString(a.ID):
			d.Report(id, "%s is not an agent id: %s", quoteSafely(a.ID), idForm)
		case taken:
			d.Report(id, "%s is the id of the agent on line %d already; every agent has its own", quoteSafely(a.ID), d.nodeOf(itemKey(list, earlier)+".id").Line)
		default:
			first[a.ID] = i
		}
		d.checkBackend(key+".backend", a.Backend)
		d.checkServers(key+".mcp_servers", a.MCPServers)
		if d.reach.cluster {
			d.checkServerReach(key+".mcp_servers", a.MCPServers)
		}
	}
}

// checkServerReach refuses MCP servers that the configuration of a session on a cluster defines.
func (d *Decoder) checkServerReach(key string, servers []MCPServer) {
	for i, s := range servers {
		if s.Defines() {
			d.Report(itemKey(key, i), "not accepted here: a session on a cluster, or of another client, can name the worker's MCP servers, not define one; give the name of one in the worker's configuration")
		}
	}
}

// checkName checks a name chosen by the user, which terminals show.
func (d *Decoder) checkName(key, name string) {
	if strings.ContainsFunc(name, unicode.IsControl) {
		d.Report(key, "a line break or another control character in a name; remove it")
	}
	d.checkSecrets(key, name)
}

// API checks the base_url, api_key_env and params of an API server as those of a
// Backend are checked. Empty values are not checked.
func (d *Decoder) API(key, baseURL, keyEnv string, params map[string]any) {
	if keyEnv != "" {
		d.checkVariable(key+".api_key_env", keyEnv)
	}
	if baseURL != "" {
		d.checkBaseURL(key+".base_url", baseURL)
	}
	for _, name := range reservedParams {
		if _, ok := params[name]; ok {
			d.Report(joinKey(key+".params", name), "not a parameter to set: it belongs to conclave; remove it")
		}
	}
	d.checkSecrets(key+".params", params)
}

// checkOrchestrator checks the keys of orchestrator against each other and against the
// agents. It refuses only contradictions: a key without effect is accepted, so that a
// mode can be tried by changing one line.
func (d *Decoder) checkOrchestrator(key string, t Team) {
	o := t.Orchestrator
	d.checkPresenter(key+".presenter_agent", t)
	if o.DisableInjection && o.UpdateMode == coordination.Restart {
		d.Report(key+".disable_injection", "updates of agents at work are disabled, but update_mode restart begins a step again for each; remove one of the two")
	}
	if n := len(t.Agents); n > 0 && o.MinActiveAgents > n {
		d.Report(key+".min_active_agents", "%d is more than the number of agents in the team; give at most %d", o.MinActiveAgents, n)
	}
	if start, n := o.TeamSize.Start, len(t.Agents); start != nil && n > 0 {
		switch at := key + ".team_size.start"; {
		case *start > n:
			d.Report(at, "%d is more than the number of agents in the team; give at most %d, or null for all", *start, n)
		case *start == 1 && o.EarlyAgreement && n > 1:
			d.Report(at, "with early_agreement the first answer of a single agent would decide; start with 2 or more")
		}
	}
	d.checkPromise(key+".act_when", t)
	if t.AnswerSchema != nil && t.dividesWithoutPresenter() {
		d.Report(key+".skip_final_presentation", textParts+" for answer_schema; remove one of the two")
	}
	if o.Agree == JudgedEqual && o.AgreeJudge.Backend == nil {
		d.Report(key+".agree", "no model to judge with; name a small one as %s, such as {backend: {model: %s}}", key+".agree_judge", defaultModel)
	}
	if b := o.AgreeJudge.Backend; b != nil {
		d.checkBackend(key+".agree_judge.backend", *b)
	}
	if usd := o.Budget.MaxCostUSD; usd != nil && *usd == 0 {
		d.Report(key+".budget.max_cost_usd", "a budget of 0 dollars allows no step; give an amount above 0, or null for no limit")
	}
	d.Approvals(key+".approvals", o.Approvals)
	if at := t.AsksPerson(); at != "" && d.single {
		d.Report(strings.Replace(at, "orchestrator", key, 1), "an agent that works outside of a session cannot wait for a person; use allow or deny, or ask in a session (`conclave run`)")
	}
	d.checkPreparation(key+".coordination", t)
}

// Approvals reports malformed rules.
func (d *Decoder) Approvals(key string, rules []approval.Rule) {
	for i, r := range rules {
		if at, fault := r.Check(); fault != nil {
			d.Report(itemKey(key, i)+"."+at, "%v", fault)
		}
	}
}

func (d *Decoder) checkPresenter(key string, t Team) {
	var ids []string // only well-formed ones, which are safe to show
	for _, a := range t.Agents {
		if agentID.MatchString(a.ID) && !text.LooksSecret(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	presenter := t.Orchestrator.PresenterAgent
	if presenter == nil || len(ids) == 0 {
		return
	}
	if _, ok := t.Agent(*presenter); !ok {
		d.Name(key, *presenter, "an agent of the team", ids)
	}
}

// checkSubtasks requires a subtask for every agent in decomposition mode, unless a model
// divides the work, and refuses subtasks in voting mode.
func (d *Decoder) checkSubtasks(section string, t Team) {
	if d.invalid[joinKey(section, "orchestrator")+".coordination_mode"] {
		return
	}
	reason := "the task decomposer divides the work only if no agent has a subtask"
	if !t.Orchestrator.Coordination.TaskDecomposer.Enabled {
		reason = "the task decomposer is switched off"
	}
	if d.single {
		reason = "a step by hand has no task decomposer"
	}
	divided := t.Orchestrator.CoordinationMode == coordination.Decomposition
	for i, a := range t.Agents {
		key := itemKey(joinKey(section, "agents"), i) + ".subtask"
		switch missing := strings.TrimSpace(a.Subtask) == ""; {
		case divided && missing && (d.single || !t.Decomposes()):
			d.Report(key, "missing; %s: give every agent a subtask", reason)
		case !divided && !missing:
			d.Report(key, "a subtask in voting mode, where every agent answers the whole query; set orchestrator.coordination_mode to decomposition, or remove the subtask")
		}
	}
}

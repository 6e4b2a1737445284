package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/coordination"
	"conclave/engine/text"
)

const container = "commands run in conclave's sandbox, without a container; remove the key"

// elsewhere maps the path of a key of other programs, above all MassGen, to its place in a
// team file, or to the reason why team files do not have it.
var elsewhere = map[string]string{
	"agents[].backend.mcp_servers":                         "MCP servers belong to the agent: agents[].mcp_servers, beside backend",
	"agents[].backend.reasoning":                           "the effort is a parameter of the API: params: {reasoning_effort: …}",
	"agents[].backend.text":                                "the verbosity is a parameter of the API: params: {verbosity: …}",
	"agents[].backend.system_message":                      "it belongs to the agent: agents[].system_message, beside backend",
	"agents[].backend.allowed_tools":                       "the filter belongs to a server: agents[].mcp_servers[].allowed_tools; tools: {files: …, shell: …} chooses the built-in tools",
	"agents[].backend.exclude_tools":                       "the filter belongs to a server: agents[].mcp_servers[].exclude_tools; tools: {files: …, shell: …} chooses the built-in tools",
	"agents[].backend.cwd":                                 "every step has a workspace of its own; remove the key",
	"agents[].backend.custom_tools":                        "tools come from MCP servers: agents[].mcp_servers",
	"agents[].backend.enable_web_search":                   "a search is a tool of an MCP server: agents[].mcp_servers",
	"agents[].backend.enable_code_interpreter":             "code runs in the agent's shell: agents[].tools: {shell: true}",
	"agents[].backend.enable_code_execution":               "code runs in the agent's shell: agents[].tools: {shell: true}",
	"agents[].backend.enable_mcp_command_line":             "commands run in the agent's shell: agents[].tools: {shell: true}",
	"agents[].backend.command_line_execution_mode":         "commands run in conclave's sandbox; remove the key",
	"agents[].backend.command_line_docker_enable_sudo":     container,
	"agents[].backend.command_line_docker_network_mode":    container,
	"agents[].backend.command_line_docker_credentials":     container,
	"agents[].backend.command_line_docker_image":           container,
	"agents[].backend.exclude_file_operation_mcps":         "the file tools are conclave's own: agents[].tools: {files: …}",
	"orchestrator.coordination.enable_agent_task_planning": "agents have no separate planning phase; remove the key",
	"orchestrator.coordination.use_skills":                 "there are no skills; write the instructions into agents[].system_message",
	"orchestrator.snapshot_storage":                        "sessions are kept in the data directory or the bucket; remove the key",
	"orchestrator.agent_temporary_workspace":               "every step has a workspace of its own; remove the key",
	"orchestrator.context_paths":                           "directories are not part of a team file; remove the key",
	"ui":                                                   "the display is not part of a team file; remove the key",
}

// apiParams are the parameters of the API that other programs accept as keys of a backend.
var apiParams = []string{
	"temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "frequency_penalty", "presence_penalty", "repetition_penalty",
	"repeat_penalty", "min_p", "enable_thinking", "thinking", "thinking_budget", "include_reasoning", "chat_template_kwargs",
	"parallel_tool_calls", "reasoning_effort", "verbosity", "extra_body", "response_format", "service_tier",
}

func placeOf(key, name string) string {
	place := "." + keyPattern(key)
	for at, hint := range elsewhere {
		if strings.HasSuffix(place, "."+at) {
			return hint
		}
	}
	i := slices.IndexFunc(apiParams, func(param string) bool { return text.Misspells(name, param) })
	if i >= 0 && strings.HasSuffix(place, ".agents[].backend."+name) {
		return "parameters of the API are under params: {" + apiParams[i] + ": …}"
	}
	return ""
}

// backendAliases maps backend types of other programs to hints that name conclave's types.
var backendAliases = map[string]string{
	"chatcompletion": "it is openai here, with base_url and api_key_env",
	"claude":         "it is anthropic here",
	"claude_code":    "its models are those of anthropic, without the program",
	"codex":          "its models are those of openai, without the program",
	"gemini_cli":     "its models are those of gemini, without the program",
	"google":         "it is gemini here",
	"grok":           "it is xai here",
	"azure_openai":   "it is azure here, with base_url and api_key_env",
	"inference":      "it is vllm or sglang here",
}

// The parameters that name files on the worker's machine: Targets of an offline model of known skill has
// the right answers, RecordedData recorded ones, those of the member RecordedMember.
const (
	Targets        = "targets"
	RecordedData   = "data"
	RecordedMember = "member"
)

// checkSkill checks the params of an offline model.
func (d *Decoder) checkSkill(key string, params map[string]any) {
	var p struct {
		Skill   float64 `json:"skill" min:"0" max:"1"`
		Judging float64 `json:"judging" min:"0" max:"1"`
		Seed    int     `json:"seed"`
		Targets string  `json:"targets"`
	}
	names := keysOf(rulesOf(reflect.TypeOf(p)))
	if !slices.ContainsFunc(names, func(name string) bool { return params[name] != nil }) {
		return // parameters of another model, which have no effect
	}
	d.decodeStruct(d.nodeOf(key), key, reflect.ValueOf(&p).Elem(), rule{})
	switch {
	case strings.TrimSpace(p.Targets) == "":
		d.Report(key, "targets is missing; it names the data set with the right answers, such as questions.jsonl")
	case d.reach.cluster:
		d.Report(joinKey(key, Targets), "a file of the worker's machine, which a session on a cluster cannot name; leave params out")
	}
}

// checkRecorded checks the params of recorded answers. It makes the path of a file beside the
// configuration's absolute.
func (d *Decoder) checkRecorded(key string, params map[string]any) {
	var p struct {
		Data    string  `json:"data"`
		Member  string  `json:"member"`
		Votes   string  `json:"votes" enum:"own,plurality"`
		Judging float64 `json:"judging" min:"0" max:"1"`
		Seed    int     `json:"seed"`
	}
	if params != nil {
		d.decodeStruct(d.nodeOf(key), key, reflect.ValueOf(&p).Elem(), rule{})
		params[RecordedData] = d.reach.locatePath(p.Data, "argument")
		if p.Votes == "" && p.Judging == 0 {
			params["votes"] = "own"
		}
	}
	switch {
	case p.Data == "" || p.Member == "":
		d.Report(key, "no data or no member; recorded answers are named as in {data: answers.tsv, member: COLUMN}")
	case d.reach.cluster:
		d.Report(joinKey(key, RecordedData), "a file of the worker's machine, which a session on a cluster cannot name; use another type")
	}
}

var calibrationType = reflect.TypeFor[coordination.Calibration]()

// readCalibration reads a calibration from the file that a value names, or from the value itself.
func (d *Decoder) readCalibration(n *yaml.Node, key string) (c coordination.Calibration) {
	if kindOf(n) != str {
		d.decodeStruct(n, key, reflect.ValueOf(&c).Elem(), rule{})
		return c
	}
	if d.reach.cluster {
		d.Report(key, "a file of the worker's machine, which a session on a cluster cannot name; give its content")
		return c
	}
	file := d.reach.locatePath(n.Value, "argument")
	data, err := os.ReadFile(file)
	if err == nil {
		c, err = Decode(file, data, d.reach, func(coordination.Calibration, *Decoder) {})
	}
	if err != nil {
		d.Report(key, "no calibration can be read: %v; `conclave eval calibrate ID --out FILE` writes one", err)
	}
	return c
}

// checkPromise refuses a promise that no calibration of this team keeps.
func (d *Decoder) checkPromise(key string, t Team) {
	a := t.Orchestrator.ActWhen
	switch {
	case a.Wrong == nil && a.Calibration == nil, d.single:
	case a.Calibration == nil:
		d.Report(key+".wrong", "a promise needs a calibration of this team; evaluate it without act_when, then `conclave eval calibrate ID --out FILE`, and name the file as calibration")
	case a.Wrong == nil:
		d.Report(key+".calibration", "there is no promise to keep; give the share of decisions that may be wrong, such as wrong: 0.05")
	case t.Orchestrator.CoordinationMode == coordination.Decomposition:
		d.Report(key+".wrong", "divided work has no answers that could agree; leave out act_when")
	default:
		_, err := a.Calibration.Promise(*a.Wrong)
		if other := a.Calibration.Team; other != t.Identity() {
			d.Report(key+".calibration", "it was made for another team (%.12s, and this is %.12s); evaluate this team on at least %d questions without act_when, and calibrate anew",
				other, t.Identity(), coordination.LeastDecisions(0, *a.Wrong))
		} else if err != nil {
			d.Report(key+".wrong", "%v", err)
		}
	}
}

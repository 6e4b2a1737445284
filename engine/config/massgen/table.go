package massgen

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// rule says where a key goes. Without any of the first three fields the key is left out.
type rule struct {
	do     func(*scope, entry) // translates the key
	inside string              // the section whose rules apply to the keys in the value
	to     string              // the section of the team that takes the value

	name   string // the key's name there, if it is another
	note   string // the words of a note before the name; "" without a note
	end    string // its words after it
	reason string // why the key is left out, if it is; "" for a key that conclave has, too
}

func do(translate func(*scope, entry)) rule { return rule{do: translate} }
func in(section string) rule                { return rule{inside: section} }
func out(reason string) rule                { return rule{reason: reason} }

// keep carries a key over to the section of the same name.
func keep(section string) rule { return rule{to: section} }

// move carries a key over to a section, whose name people know as place. The name is "" for the key's own.
func move(section, place, name string) rule {
	return rule{to: section, name: name, note: "moved to " + place}
}

// doNothing marks keys that are translated before or after the others of their section.
func doNothing(*scope, entry) {}

// agentKeys are the keys of an agent that conclave has, too.
const agentKeys = "system_message subtask mcp_servers tools"

// apiParams are the parameters of the API, and those of servers that extend it, as keys of a backend.
const apiParams = `temperature top_p top_k max_tokens max_completion_tokens seed stop frequency_penalty presence_penalty
	parallel_tool_calls reasoning reasoning_effort text verbosity extra_body service_tier thinking
	chat_template_kwargs logit_bias logprobs top_logprobs metadata min_p prediction prompt_cache_key repetition_penalty response_format
	safety_identifier store user`

// The reasons that several keys share.
const (
	noCounterpart = "has no counterpart in conclave; it is left out"
	workspace     = "every step has a workspace of its own, and sessions are kept in the data directory or the bucket"
	planning      = "agents have no separate planning phase; say in the system_message how to plan"
	debugging     = "a switch for MassGen's own tests"
	ofTeam        = "one value holds for the whole team: "
	rateLimits    = "limits of requests and tokens per minute belong to a provider of the worker configuration"
	unknownParam  = "neither a key of conclave nor a parameter of the Chat Completions API, so it is not sent; put it into backend.params if the service takes it"
)

// inParams is where people find the parameters of the API.
const inParams = "backend.params."

// table has the rule of every key of MassGen, by its section. team is the document, agent is agents[],
// backend is agents[].backend, server is agents[].backend.mcp_servers[]; the others are mappings of that
// name. * stands for the keys without a row; a section without that row leaves them out with noCounterpart.
var table = rules{
	{"team", "agents agent", do(doNothing)},
	{"team", "orchestrator", in("orchestrator")},
	{"team", "timeout_settings", in("timeout_settings")},
	{"team orchestrator", "timeout", in("timeout")},
	{"timeout_settings", "*", keep("timeout_settings")},
	{"timeout", "*", move("timeout_settings", "timeout_settings.", "")},
	{"team", "ui display", out("conclave shows sessions in its own way: conclave watch, status and the Web UI")},
	{"team", "task prompt", out("the question is an argument: conclave run QUERY")},
	{"team", "rate_limits", out(rateLimits)},

	{"agent", "id", do(doNothing)},
	{"agent", agentKeys, keep("agent")},
	{"agent", "backend", do((*scope).translateBackend)},
	{"agent backend", "append_system_prompt", do((*scope).addInstructions)},
	{"backend", "system_prompt", do((*scope).addInstructions)},
	{"agent backend", "voting_sensitivity", out(ofTeam + "orchestrator.voting_sensitivity")},

	{"backend", "type model base_url azure_endpoint azure_deployment allowed_tools exclude_tools", do(doNothing)},
	{"backend", "provider api_key_env context_window price_per_million silent_timeout_seconds max_concurrent_calls", keep("backend")},
	{"backend", "params", in("params")},
	{"params", "*", keep("params")},
	{"backend", "api_key", do((*scope).translateKey)},
	{"backend", "subtask", move("agent", "the agent's ", "")},
	{"backend", "mcp_servers", rule{do: (*scope).translateServers, reason: "has no servers"}},
	{"backend", "enable_mcp_command_line", rule{do: (*scope).allowCommands, reason: "neither true nor false; set tools.shell of the agent"}},
	{"backend", "agent_config group_config", rule{do: (*scope).refuseFramework, reason: "belongs to the type ag2"}},
	{"backend", apiParams, rule{do: (*scope).translateParam}},
	{"reasoning", "effort", move("params", inParams, "reasoning_effort")},
	{"reasoning", "summary", out("belongs to the Responses API; the Chat Completions API has no summaries of thoughts")},
	{"text", "verbosity", move("params", inParams, "")},
	{"text", "*", out("belongs to the Responses API; set response_format in backend.params for the Chat Completions API")},
	{"extra_body", "*", move("params", inParams, "")},
	{"backend", "*", do((*scope).leaveOutParam)},

	{"server", "name", do(doNothing)},
	{"server", "url scope", keep("server")},
	{"server", "type", do((*scope).translateTransport)},
	{"server", "command", do((*scope).translateCommand)},
	{"server", "args", do((*scope).translateArguments)},
	{"server", "env", do((*scope).translateEnvironment)},
	{"server", "allowed_tools exclude_tools", do((*scope).keepFilter)},

	{"orchestrator", "presenter_agent", do((*scope).translatePresenter)},
	{"orchestrator", "coordination", do((*scope).translateCoordination)},
	{"orchestrator", "*", keep("orchestrator")},
	{"coordination", "max_orchestration_restarts", move("orchestrator", "orchestrator.", "")},
	{"coordination", "checklist_criteria_preset", rule{to: "coordination", name: "criteria_preset", note: "renamed to "}},
	{"coordination", "*", keep("coordination")},

	{"backend orchestrator coordination", `cwd agent_temporary_workspace agent_temporary_workspace_parent session_storage session_storage_base
		filesystem_session_id session_id use_two_tier_workspace write_mode drift_conflict_policy snapshot_storage`, out(workspace)},
	{
		"backend orchestrator", "context_paths context_write_access_enabled enforce_read_before_delete",
		out("directories are given to the command: conclave run --base DIR for one that agents change, --context DIR for one that they read"),
	},
	{"backend orchestrator", `enable_image_generation enable_audio_generation enable_video_generation enable_file_generation image_generation_backend
		image_generation_model video_generation_backend video_generation_model audio_generation_backend audio_generation_model
		enable_multimodal_tools multimodal_config`, out("agents generate no images, sound or video; an MCP server can")},
	{"team agent backend coordination", `checkpoint main_agent standalone_checkpoint_enabled standalone_checkpoint_include_workspace_context
		standalone_checkpoint_mode standalone_checkpoint_single standalone_checkpoint_team_config plan_depth plan_thoroughness plan_target_steps
		plan_target_chunks checkpoint_enabled checkpoint_mode checkpoint_guidance checkpoint_gated_patterns enable_planning_mode
		planning_mode_instruction enable_agent_task_planning task_planning_filesystem_mode max_tasks_per_plan`, out(planning)},
	{"orchestrator coordination", "use_skills skills_directory massgen_skills load_previous_session_skills enabled_skill_names", out("there are no skills; write the instructions into the system_message")},
	{
		"team coordination", "memory enable_memory_filesystem_mode compression_target_ratio learning_capture_mode enable_changedoc disable_final_only_round_capture_fallback",
		out("agents keep no memory between sessions; long conversations are summarized to fit the context window"),
	},
	{"agent backend coordination", `enable_subagents subagent_agents subagent_types subagent_orchestrator subagent_default_timeout subagent_max_concurrent
		subagent_min_timeout subagent_max_timeout subagent_round_timeouts subagent_runtime_mode subagent_runtime_fallback_mode
		subagent_host_launch_prefix background_subagents async_subagents`, out("agents start no agents of their own; a pipeline's step can be a team")},
	{
		"coordination", "broadcast broadcast_sensitivity broadcast_timeout broadcast_wait_by_default max_broadcasts_per_agent response_depth",
		out("agents do not message each other; conclave say reaches them from outside"),
	},
	{"backend orchestrator coordination", `debug_delay_seconds debug_delay_after_n_tools debug_final_answer vote_only instance_id agent_id
		enable_execution_trace_analyzer auto_trace_analysis`, out(debugging)},
	{"team agent backend orchestrator", "nlip enable_nlip nlip_config", out("messages in NLIP are not supported")},
	{"team agent backend orchestrator", "hooks", out("there are no hooks")},

	{
		"backend", "enable_web_search enable_x_search engine max_results search_prompt search_context_size",
		out("a provider's own search is not part of the Chat Completions API; give the agent an MCP server that searches"),
	},
	{
		"backend", "enable_code_execution enable_code_interpreter enable_programmatic_flow",
		out("a provider's own interpreter is not part of the Chat Completions API; tools.shell: true, which is not set here, runs code in conclave's sandbox"),
	},
	{"backend", `command_line_execution_mode command_line_allowed_commands command_line_blocked_commands command_line_docker_image
		command_line_docker_memory_limit command_line_docker_cpu_limit command_line_docker_network_mode command_line_docker_enable_sudo
		command_line_docker_credentials command_line_docker_packages`, out("commands run in conclave's own sandbox, without a container; its limits are in the worker configuration, under sandbox")},
	{"backend", `command_line_srt_allow_read command_line_srt_allow_unix_sockets command_line_srt_deny_read command_line_srt_network_allowed_domains
		command_line_srt_read_mode`, out("NOT enforced: the sandbox denies commands every network and every file outside the workspace, unless the worker configuration allows more under sandbox")},
	{"backend", "permissions", out("NOT enforced: there is no engine for such rules, the sandbox denies commands the network and files outside the workspace; " +
		"tools.shell stays off, switch it on if that is enough")},
	{"backend", "permission_mode", out("tools ask for no permission: the sandbox limits commands, and the filters of mcp_servers limit other tools")},
	{"backend", "disallowed_tools", out("conclave's own tools replace those of a command-line agent; a shell in this list turns tools.shell off")},
	{"backend", `custom_tools custom_tools_path auto_discover_custom_tools exclude_custom_tools shared_tools_directory enable_code_based_tools
		direct_mcp_servers`, out("Python functions are not tools here; offer them through an MCP server")},
	{"backend", "exclude_file_operation_mcps", out("the file tools are conclave's own; tools.files: false takes them away")},
	{"backend", "use_mcpwrapped_for_tool_filtering", out("the filters of mcp_servers need no wrapper")},
	{"backend", "use_no_roots_wrapper", out("the roots of a server include the directories of its arguments")},
	{"backend", `presenter_agent coordination_mode fairness_enabled fairness_lead_cap_answers final_answer_strategy checklist_first_answer
		max_checklist_calls_per_round max_midstream_injections_per_round defer_peer_updates_until_restart
		allow_midstream_peer_updates_before_checklist_submit round_evaluator_before_checklist orchestrator_managed_round_evaluator
		round_evaluator_transformation_pressure`, out(ofTeam + "set it in orchestrator")},
	{"backend", "upload_files", out("files are given to the command: conclave run --context DIR; models are shown the pictures that they read there")},
	{"backend", "betas organization", out("headers of the provider's own API are not sent")},
	{"backend", "api_version", out("the version 1 API of Azure has no such parameter")},
	{"backend", "websocket_mode", out("replies are streamed over HTTP")},
	{"backend", "output_schema", out("answers are texts; set response_format in backend.params if the provider supports it together with tools")},
	{"backend", "max_thinking_tokens", out("belongs to a command-line agent; set reasoning_effort in backend.params")},
	{"backend", "concurrent_tool_execution max_concurrent_tools", out("the tool calls of one reply run one after another")},
	{"backend", "enable_rate_limit", out(rateLimits)},
	{"backend", `enable_tool_search tool_search_variant enable_strict_tool_use bootstrap_max_per_agent_per_round bootstrap_max_total
		checklist_require_gap_report criteria_mode gap_report_mode`, out(noCounterpart)},

	{"server", "security", out("a server reaches what the worker's user can; name only servers that you trust, and restrict their tools with allowed_tools")},
	{"server", "headers authorization", out("headers are not part of a team file; with token_env in a worker configuration, conclave sends a bearer token")},
	{"server", "cwd", out("a server starts in an empty directory; CONCLAVE_WORKSPACE in its environment and arguments is the workspace")},
	{"server", "timeout tool_timeout", out("the time limit of a call is call_timeout_seconds in a worker configuration")},
	{"server", "defer_loading", out("all tools of a server are offered at once")},

	{"orchestrator", "type", out(noCounterpart)},
	{"orchestrator", "skip_coordination_rounds", out(debugging + "; skip_voting ends a session without a vote")},
	{"orchestrator", "voting_threshold", out("the threshold of the checklist is fixed: it starts at 5")},
	{"orchestrator", "max_turns", out("a session is one question")},
	{"orchestrator", "dspy", out("the question is given to all agents as it stands")},
	{"coordination", `pre_collab_voting_threshold evolving_criteria evolving_criteria_min_high_score_count fast_iteration_mode round_evaluator_refine
		round_evaluator_skip_synthesis novelty_injection improvements enable_quality_rethink_on_iteration enable_novelty_on_iteration`, out(noCounterpart)},
}

// rules are the rows of a table.
type rules []struct {
	sections, keys string
	rule           rule
}

func (rs rules) ruleOf(section, key string) (r rule, own bool) {
	for _, row := range rs {
		switch {
		case !slices.Contains(strings.Fields(row.sections), section):
		case slices.Contains(strings.Fields(row.keys), key):
			return row.rule, true
		case row.keys == "*":
			r = row.rule
		}
	}
	return r, false
}

func isParam(key string) bool { return slices.Contains(strings.Fields(apiParams), key) }

// maxRemovals bounds the rounds of removeRefused; each removes something.
const maxRemovals = 20

// removeRefused removes the optional values that conclave refuses, with a note of the reason,
// and returns the problems that are left.
func (im *importer) removeRefused(name string) error {
	for range maxRemovals {
		pruneEmpty(im.team)
		_, err := config.Parse(name, im.writeTeam(), config.Local)
		problems, _ := errors.AsType[config.Problems](err)
		removed := false
		for _, p := range problems {
			reason := "not carried over: " + p.Message
			if p.Unknown {
				reason = noCounterpart
			}
			removed = im.removeValue(p.Key, reason) || removed
		}
		if !removed {
			return err
		}
	}
	return errors.New("the translation cannot be made valid; report the file")
}

// required matches the keys that every agent needs.
var required = regexp.MustCompile(`^agents\[\d+\](\.id|\.backend(\.(type|model))?)?$|^agents$|^$`)

// serverPart matches the keys that every MCP server needs; if one is removed, so is the server.
var serverPart = regexp.MustCompile(`^(agents\[\d+\]\.mcp_servers\[\d+\])(\.(name|command|url|args\[\d+\]))?$`)

// removeValue marks the value of a key for removal and notes the reason. It reports whether there
// was a value to remove.
func (im *importer) removeValue(key, reason string) bool {
	if m := serverPart.FindStringSubmatch(key); m != nil {
		key = m[1]
	}
	n, found := config.Find(im.team, key)
	if n.Kind == 0 || required.MatchString(found) {
		return false
	}
	path := cmp.Or(im.paths[n], found)
	im.notes.removeKey(path)
	im.notes.addNote(path, n.Line, keysBelow(n, ""), "%s", reason)
	*n = yaml.Node{} // pruneEmpty removes it
	return true
}

func pruneEmpty(n *yaml.Node) {
	var kept []*yaml.Node
	for _, e := range config.Entries(n) {
		pruneEmpty(e.Value)
		empty := e.Value.Kind != yaml.ScalarNode && len(e.Value.Content) == 0
		if !empty || e.Value.Kind != 0 && (e.Key.Value == "agents" || e.Key.Value == "backend") {
			kept = append(kept, e.Key, e.Value)
		}
	}
	if n.Kind == yaml.SequenceNode {
		kept = slices.DeleteFunc(n.Content, func(item *yaml.Node) bool { return item.Kind == 0 })
		for _, item := range kept {
			pruneEmpty(item)
		}
	}
	n.Content = kept
}

package massgen

const noCounterpart = "has no counterpart in conclave; it is left out"

// The reasons for leaving keys out, by section. Keys that are on no list are carried over,
// or get noCounterpart.

const (
	display   = "conclave shows sessions in its own way: conclave watch, status and the Web UI"
	memories  = "agents keep no memory between sessions; long conversations are summarized to fit the context window"
	workspace = "every step has a workspace of its own, and sessions are kept in the data directory or the bucket"
	directory = "directories are given to the command: conclave run --base DIR for one that agents change, --context DIR for one that they read"
	search    = "a provider's own search is not part of the Chat Completions API; give the agent an MCP server that searches"
	execution = "a provider's own interpreter is not part of the Chat Completions API; tools.shell: true, which is not set here, runs code in conclave's sandbox"
	media     = "agents generate no images, sound or video; an MCP server can"
	container = "commands run in conclave's own sandbox, without a container; its limits are in the worker configuration, under sandbox"
	functions = "Python functions are not tools here; offer them through an MCP server"
	planning  = "agents have no separate planning phase; say in the system_message how to plan"
	skills    = "there are no skills; write the instructions into the system_message"
	subagents = "agents start no agents of their own; a pipeline's step can be a team"
	messaging = "agents do not message each other; conclave say reaches them from outside"
	debugging = "a switch for MassGen's own tests"
	messages  = "messages in NLIP are not supported"
	hooks     = "there are no hooks"
	ofTeam    = "one value holds for the whole team: set it in orchestrator"
	network   = "NOT enforced: the sandbox denies commands every network and every file outside the workspace, unless the worker configuration allows more under sandbox"

	unknownParam = "neither a key of conclave nor a parameter of the Chat Completions API, so it is not sent; put it into backend.params if the service takes it"
)

var topLevel = map[string]string{
	"ui": display, "display": display, "memory": memories, "nlip": messages, "hooks": hooks,
	"task": "the question is an argument: conclave run QUERY", "prompt": "the question is an argument: conclave run QUERY",
	"checkpoint": planning, "rate_limits": "limits of requests and tokens per minute belong to a provider of the worker configuration",
}

var agentKeys = map[string]string{
	"voting_sensitivity": "one value holds for the whole team: orchestrator.voting_sensitivity",
	"subagent_agents":    subagents, "main_agent": planning, "enable_nlip": messages, "nlip": messages, "hooks": hooks,
}

var backendKeys = map[string]string{
	"cwd": workspace, "agent_temporary_workspace": workspace, "agent_temporary_workspace_parent": workspace, "session_storage_base": workspace,
	"filesystem_session_id": workspace, "session_id": workspace, "use_two_tier_workspace": workspace, "write_mode": workspace, "drift_conflict_policy": workspace,
	"context_paths": directory, "context_write_access_enabled": directory, "enforce_read_before_delete": directory,
	"upload_files":      "files are given to the command: conclave run --context DIR; models are shown the pictures that they read there",
	"enable_web_search": search, "enable_x_search": search, "engine": search, "max_results": search, "search_prompt": search, "search_context_size": search,
	"enable_code_execution": execution, "enable_code_interpreter": execution, "enable_programmatic_flow": execution,
	"enable_image_generation": media, "enable_audio_generation": media, "enable_video_generation": media, "enable_file_generation": media,
	"image_generation_backend": media, "image_generation_model": media, "video_generation_backend": media, "video_generation_model": media,
	"audio_generation_backend": media, "audio_generation_model": media, "enable_multimodal_tools": media, "multimodal_config": media,
	"command_line_execution_mode": container, "command_line_allowed_commands": container, "command_line_blocked_commands": container,
	"command_line_docker_image": container, "command_line_docker_memory_limit": container, "command_line_docker_cpu_limit": container,
	"command_line_docker_network_mode": container, "command_line_docker_enable_sudo": container,
	"command_line_docker_credentials": container, "command_line_docker_packages": container,
	"custom_tools": functions, "custom_tools_path": functions, "auto_discover_custom_tools": functions, "exclude_custom_tools": functions,
	"shared_tools_directory": functions, "enable_code_based_tools": functions, "direct_mcp_servers": functions,
	"exclude_file_operation_mcps":       "the file tools are conclave's own; tools.files: false takes them away",
	"use_mcpwrapped_for_tool_filtering": "the filters of mcp_servers need no wrapper", "use_no_roots_wrapper": "the roots of a server include the directories of its arguments",
	"enable_tool_search": noCounterpart, "tool_search_variant": noCounterpart, "enable_strict_tool_use": noCounterpart,
	"permissions":                 "NOT enforced: there is no engine for such rules, the sandbox denies commands the network and files outside the workspace; tools.shell stays off, switch it on if that is enough",
	"command_line_srt_allow_read": network, "command_line_srt_allow_unix_sockets": network, "command_line_srt_deny_read": network,
	"command_line_srt_network_allowed_domains": network, "command_line_srt_read_mode": network,
	"presenter_agent": ofTeam, "coordination_mode": ofTeam, "fairness_enabled": ofTeam, "fairness_lead_cap_answers": ofTeam, "final_answer_strategy": ofTeam,
	"checklist_first_answer": ofTeam, "max_checklist_calls_per_round": ofTeam, "max_midstream_injections_per_round": ofTeam, "defer_peer_updates_until_restart": ofTeam,
	"allow_midstream_peer_updates_before_checklist_submit": ofTeam, "round_evaluator_before_checklist": ofTeam, "orchestrator_managed_round_evaluator": ofTeam,
	"round_evaluator_transformation_pressure": ofTeam,
	"standalone_checkpoint_enabled":           planning, "standalone_checkpoint_include_workspace_context": planning, "standalone_checkpoint_mode": planning,
	"standalone_checkpoint_single": planning, "standalone_checkpoint_team_config": planning,
	"bootstrap_max_per_agent_per_round": noCounterpart, "bootstrap_max_total": noCounterpart, "checklist_require_gap_report": noCounterpart, "criteria_mode": noCounterpart, "gap_report_mode": noCounterpart,
	"permission_mode":  "tools ask for no permission: the sandbox limits commands, and the filters of mcp_servers limit other tools",
	"disallowed_tools": "conclave's own tools replace those of a command-line agent; a shell in this list turns tools.shell off",
	"betas":            "headers of the provider's own API are not sent", "organization": "headers of the provider's own API are not sent",
	"api_version":               "the version 1 API of Azure has no such parameter",
	"websocket_mode":            "replies are streamed over HTTP",
	"output_schema":             "answers are texts; set response_format in backend.params if the provider supports it together with tools",
	"max_thinking_tokens":       "belongs to a command-line agent; set reasoning_effort in backend.params",
	"concurrent_tool_execution": "the tool calls of one reply run one after another", "max_concurrent_tools": "the tool calls of one reply run one after another",
	"enable_rate_limit":   "limits of requests and tokens per minute belong to a provider of the worker configuration",
	"debug_delay_seconds": debugging, "debug_delay_after_n_tools": debugging, "vote_only": debugging, "instance_id": debugging, "agent_id": debugging,
	"enable_nlip": messages, "nlip": messages, "nlip_config": messages, "hooks": hooks,
	"plan_depth": planning, "plan_thoroughness": planning, "plan_target_steps": planning, "plan_target_chunks": planning,
	"main_agent": planning, "checkpoint_enabled": planning, "checkpoint_mode": planning, "checkpoint_guidance": planning, "checkpoint_gated_patterns": planning,
	"voting_sensitivity": "one value holds for the whole team: orchestrator.voting_sensitivity",
	"subagent_types":     subagents,
	"agent_config":       "belongs to the type ag2", "group_config": "belongs to the type ag2",
	"enable_mcp_command_line": "neither true nor false; set tools.shell of the agent",
	"mcp_servers":             "has no servers",
}

var serverKeys = map[string]string{
	"security":      "a server reaches what the worker's user can; name only servers that you trust, and restrict their tools with allowed_tools",
	"headers":       "headers are not part of a team file; with token_env in a worker configuration, conclave sends a bearer token",
	"authorization": "headers are not part of a team file; with token_env in a worker configuration, conclave sends a bearer token",
	"cwd":           "a server starts in an empty directory; CONCLAVE_WORKSPACE in its environment and arguments is the workspace",
	"timeout":       "the time limit of a call is call_timeout_seconds in a worker configuration", "tool_timeout": "the time limit of a call is call_timeout_seconds in a worker configuration",
	"defer_loading": "all tools of a server are offered at once",
}

var orchestratorKeys = map[string]string{
	"snapshot_storage": workspace, "agent_temporary_workspace": workspace, "session_storage": workspace,
	"context_paths": directory, "skills_directory": skills, "type": noCounterpart,
	"enable_multimodal_tools": media, "image_generation_backend": media, "image_generation_model": media, "video_generation_backend": media,
	"video_generation_model": media, "audio_generation_backend": media, "audio_generation_model": media,
	"debug_final_answer": debugging, "skip_coordination_rounds": "a switch for MassGen's own tests; skip_voting ends a session without a vote",
	"voting_threshold": "the threshold of the checklist is fixed: it starts at 5", "max_turns": "a session is one question",
	"dspy":        "the question is given to all agents as it stands",
	"enable_nlip": messages, "nlip": messages, "hooks": hooks,
}

var coordinationKeys = map[string]string{
	"enable_planning_mode": planning, "planning_mode_instruction": planning, "enable_agent_task_planning": planning,
	"task_planning_filesystem_mode": planning, "max_tasks_per_plan": planning, "plan_depth": planning, "plan_target_steps": planning, "plan_target_chunks": planning,
	"use_skills": skills, "skills_directory": skills, "massgen_skills": skills, "load_previous_session_skills": skills, "enabled_skill_names": skills,
	"enable_memory_filesystem_mode": memories, "compression_target_ratio": memories, "learning_capture_mode": memories, "enable_changedoc": memories,
	"disable_final_only_round_capture_fallback": memories,
	"enable_subagents":                          subagents, "subagent_types": subagents, "subagent_orchestrator": subagents, "subagent_default_timeout": subagents,
	"subagent_max_concurrent": subagents, "subagent_min_timeout": subagents, "subagent_max_timeout": subagents, "subagent_round_timeouts": subagents,
	"subagent_runtime_mode": subagents, "subagent_runtime_fallback_mode": subagents, "subagent_host_launch_prefix": subagents,
	"background_subagents": subagents, "async_subagents": subagents,
	"broadcast": messaging, "broadcast_sensitivity": messaging, "broadcast_timeout": messaging, "broadcast_wait_by_default": messaging,
	"max_broadcasts_per_agent": messaging, "response_depth": messaging,
	"write_mode": workspace, "drift_conflict_policy": workspace, "use_two_tier_workspace": workspace,
	"enable_execution_trace_analyzer": debugging, "auto_trace_analysis": debugging,
	"pre_collab_voting_threshold": noCounterpart, "evolving_criteria": noCounterpart, "evolving_criteria_min_high_score_count": noCounterpart,
	"fast_iteration_mode": noCounterpart, "round_evaluator_refine": noCounterpart, "round_evaluator_skip_synthesis": noCounterpart,
	"novelty_injection": noCounterpart, "improvements": noCounterpart, "enable_quality_rethink_on_iteration": noCounterpart, "enable_novelty_on_iteration": noCounterpart,
}

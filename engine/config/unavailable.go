package config

import (
	"reflect"
	"slices"
)

// restriction is a key that is not built, or some values of one that is.
type restriction struct {
	key    string
	values []string
}

// unavailable lists the keys that are known and checked but do nothing yet:
// setting one to anything but its default is refused, or, where values are
// given, setting it to one of those. Building a feature deletes its lines.
var unavailable = []restriction{
	{key: "agents[].subtask"},
	{key: "agents[].mcp_servers"},
	{key: "agents[].tools.shell"},
	{key: "orchestrator.coordination_mode"},
	{key: "orchestrator.pacing"},
	{key: "orchestrator.update_mode"},
	{key: "orchestrator.voting_sensitivity"},
	{key: "orchestrator.disable_injection"},
	{key: "orchestrator.fairness_enabled"},
	{key: "orchestrator.fairness_lead_cap_answers"},
	{key: "orchestrator.max_midstream_injections_per_round"},
	{key: "orchestrator.defer_peer_updates_until_restart"},
	{key: "orchestrator.allow_midstream_peer_updates_before_checklist_submit"},
	{key: "orchestrator.max_new_answers_per_agent"},
	{key: "orchestrator.max_new_answers_global"},
	{key: "orchestrator.defer_voting_until_all_answered"},
	{key: "orchestrator.answer_novelty_requirement"},
	{key: "orchestrator.max_checklist_calls_per_round"},
	{key: "orchestrator.checklist_first_answer"},
	{key: "orchestrator.skip_voting"},
	{key: "orchestrator.final_answer_strategy"},
	{key: "orchestrator.presenter_agent"},
	{key: "orchestrator.max_orchestration_restarts"},
	{key: "orchestrator.on_agent_failure", values: []string{"park"}},
	{key: "orchestrator.budget.max_cost_usd"},
	{key: "orchestrator.budget.max_total_tokens"},
	{key: "orchestrator.coordination.persona_generator.enabled"},
	{key: "orchestrator.coordination.evaluation_criteria_generator.enabled"},
	{key: "orchestrator.coordination.evaluation_criteria_generator.min_criteria"},
	{key: "orchestrator.coordination.evaluation_criteria_generator.max_criteria"},
	{key: "orchestrator.coordination.task_decomposer.enabled"},
	{key: "orchestrator.coordination.checklist_criteria_inline"},
	{key: "orchestrator.coordination.round_evaluator_before_checklist"},
	{key: "orchestrator.coordination.orchestrator_managed_round_evaluator"},
	{key: "orchestrator.coordination.round_evaluator_transformation_pressure"},
	{key: "timeout_settings.initial_round_timeout_seconds"},
	{key: "timeout_settings.subsequent_round_timeout_seconds"},
	{key: "timeout_settings.round_timeout_grace_seconds"},
}

// available says whether the value of a key does something in this version.
func available(pattern string, v reflect.Value, r rule) bool {
	for _, u := range unavailable {
		switch {
		case u.key != pattern:
		case u.values != nil:
			return !slices.Contains(u.values, v.String())
		default:
			return isDefault(v, r)
		}
	}
	return true
}

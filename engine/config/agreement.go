package config

import "strings"

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

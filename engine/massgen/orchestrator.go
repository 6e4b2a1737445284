package massgen

import "go.yaml.in/yaml/v4"

// orchestrator translates the section of that name.
func (im *importer) orchestrator(e entry) {
	if e.value.Kind != yaml.MappingNode {
		im.leaveOut(topLevel, e)
		return
	}
	into := section(im.team, "orchestrator")
	for _, key := range entries(e.value, e.path) {
		switch key.key {
		case "presenter_agent":
			im.presenter(into, key)
		case "timeout":
			im.timeouts(key)
		case "coordination":
			im.coordination(into, key)
		default:
			if _, known := orchestratorKeys[key.key]; known {
				im.leaveOut(orchestratorKeys, key)
				continue
			}
			im.carry(into, key.key, key)
		}
	}
}

// presenter names an agent by its ID here.
func (im *importer) presenter(into *yaml.Node, e entry) {
	if id, ok := im.ids[text(e.value)]; ok && id != text(e.value) {
		im.notes.of(e, "now %s, as the agent", id)
		e.value = str(id)
	}
	im.carry(into, e.key, e)
}

// coordination translates the section of that name within orchestrator.
func (im *importer) coordination(orchestrator *yaml.Node, e entry) {
	into := mapping()
	for _, key := range entries(e.value, e.path) {
		switch key.key {
		case "max_orchestration_restarts":
			im.move(orchestrator, key.key, key, "moved to orchestrator."+key.key)
		case "checklist_criteria_preset":
			im.move(into, "criteria_preset", key, "renamed to criteria_preset")
		default:
			if _, known := coordinationKeys[key.key]; known {
				im.leaveOut(coordinationKeys, key)
				continue
			}
			im.carry(into, key.key, key)
		}
	}
	if on, _ := truth(get(into, "round_evaluator_before_checklist")); on && get(into, "orchestrator_managed_round_evaluator") == nil {
		im.notes.at(e.path+".orchestrator_managed_round_evaluator", e.value, "missing; it is true, since evaluations before the checklist are managed so here")
		set(into, "orchestrator_managed_round_evaluator", boolean(true))
	}
	if len(into.Content) > 0 {
		set(orchestrator, e.key, into)
	}
}

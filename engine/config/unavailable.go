package config

import (
	"reflect"
	"slices"
)

// unavailable lists the keys that are known and checked but do nothing yet:
// setting one to anything but its default is refused. Building a feature
// deletes its lines.
//
// The switch of the task decomposer is not among them. Switched off it is what
// this version does anyway, and where it would be needed the missing subtask is
// refused (agreement.go).
var unavailable = []string{
	"orchestrator.coordination.persona_generator.enabled",
	"orchestrator.coordination.evaluation_criteria_generator.enabled",
	"orchestrator.coordination.evaluation_criteria_generator.min_criteria",
	"orchestrator.coordination.evaluation_criteria_generator.max_criteria",
	"orchestrator.coordination.round_evaluator_before_checklist",
	"orchestrator.coordination.orchestrator_managed_round_evaluator",
	"orchestrator.coordination.round_evaluator_transformation_pressure",
}

// available says whether the value of a key does something in this version.
func available(pattern string, v reflect.Value, r rule) bool {
	return !slices.Contains(unavailable, pattern) || isDefault(v, r)
}

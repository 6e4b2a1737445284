package config

import (
	"maps"
	"slices"
	"strings"

	"conclave/engine/text"
)

// Targets is the parameter of an offline model of known skill. It names the data set with the
// right answers, a file on the worker's machine.
const Targets = "targets"

// checkSkill checks the params of an offline model: {skill, judging, seed, targets}.
func (d *Decoder) checkSkill(key string, params map[string]any) {
	names := []string{"skill", "judging", "seed", Targets}
	if !slices.ContainsFunc(names, func(name string) bool { return params[name] != nil }) {
		return // parameters of another model, which have no effect
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		at := join(key, name)
		switch name {
		case "skill", "judging":
			if p, ok := numberOf(params[name]); !ok || p < 0 || p > 1 {
				d.Report(at, "a probability; give a number from 0 to 1")
			}
		case "seed":
			if n, ok := numberOf(params[name]); !ok || n != float64(int64(n)) {
				d.Report(at, "the seed of the model; give a whole number")
			}
		case Targets:
			if file, ok := params[name].(string); !ok || strings.TrimSpace(file) == "" {
				d.Report(at, "the data set with the right answers; give the name of a file")
			}
		default:
			hint := "valid: " + strings.Join(names, ", ")
			if nearest, near := text.Nearest(name, names); near {
				hint = "did you mean " + nearest + "?"
			}
			d.Report(at, "not a parameter of the offline model; %s", hint)
		}
	}
	switch {
	case params[Targets] == nil:
		d.Report(key, "targets is missing; it names the data set with the right answers, such as questions.jsonl")
	case d.reach.cluster:
		d.Report(join(key, Targets), "a file of the worker's machine, which a session on a cluster cannot name; leave params out")
	}
}

// numberOf returns the value of a number, as YAML and JSON decode it.
func numberOf(value any) (float64, bool) {
	switch n := value.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

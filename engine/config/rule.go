package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// rule is what the tags of a field say about its key.
type rule struct {
	index     int // of the field
	key       string
	enum      []string
	def       *node    // the default; nil if there is none
	min, max  *float64 // nil: unbounded
	doc       string
	shorthand string // the key that a plain string stands for, in place of a mapping
	optional  bool   // a string whose default is that there is none
}

// rules reads the tags of a struct type.
func rules(t reflect.Type) []rule {
	rs := make([]rule, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		r := rule{
			index: i, key: key, doc: tag.Get("doc"), shorthand: tag.Get("shorthand"),
			min: bound(tag.Get("min")), max: bound(tag.Get("max")), optional: options == "omitempty",
		}
		if enum := tag.Get("enum"); enum != "" {
			r.enum = strings.Split(enum, ",")
		}
		if def, ok := tag.Lookup("default"); ok {
			r.def = &node{kind: kindOf(t.Field(i).Type), text: def}
		}
		rs = append(rs, r)
	}
	return rs
}

func bound(tag string) *float64 {
	f, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		return nil
	}
	return &f
}

// kindOf is the kind of document value that a scalar field is decoded from.
func kindOf(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Float64:
		return number
	}
	return stringText
}

// keys lists the keys of a struct type.
func keys(rs []rule) []string {
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = r.key
	}
	return names
}

// setDefaults gives every key below v its default.
func setDefaults(v reflect.Value) {
	for _, r := range rules(v.Type()) {
		switch field := v.Field(r.index); {
		case field.Kind() == reflect.Struct:
			setDefaults(field)
		case r.def != nil:
			new(decoder).decode(r.def, "", field, r)
		}
	}
}

// isDefault says whether a scalar or a collection has its key's default.
func isDefault(v reflect.Value, r rule) bool {
	def := reflect.New(v.Type()).Elem()
	if r.def != nil {
		new(decoder).decode(r.def, "", def, r)
	}
	return reflect.DeepEqual(v.Interface(), def.Interface())
}

// walk calls visit with every key of a struct type and of what is below it, in
// order. A key in a list has its pattern: agents[].id.
func walk(t reflect.Type, prefix string, visit func(pattern string, r rule)) {
	for _, r := range rules(t) {
		pattern := join(prefix, r.key)
		visit(pattern, r)
		switch field := t.Field(r.index).Type; {
		case field.Kind() == reflect.Struct:
			walk(field, pattern, visit)
		case field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Struct && field != criteriaType:
			walk(field.Elem(), pattern+"[]", visit)
		case field.Kind() == reflect.Map && field.Elem().Kind() == reflect.Struct:
			walk(field.Elem(), pattern+".NAME", visit)
		}
	}
}

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

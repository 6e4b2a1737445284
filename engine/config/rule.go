package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// rule is the specification of one key, from the tags of its field.
type rule struct {
	index     int // index of the field
	key       string
	enum      []string
	def       *node    // the default; nil without one
	min, max  *float64 // nil for no bound
	doc       string
	shorthand string // the key that a plain string sets, in place of a mapping
	single    bool   // a list that may be written as its only item
	optional  bool   // a string that may be null
	path      string // program or argument for a string that may be a relative path, or for a list of them

	booleans []string // the choices that true and false stand for; nil if booleans are refused
}

// rules reads the tags of a struct type.
func rules(t reflect.Type) []rule {
	rs := make([]rule, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		r := rule{
			index: i, key: key, doc: tag.Get("doc"), shorthand: tag.Get("shorthand"),
			min: bound(tag.Get("min")), max: bound(tag.Get("max")), single: tag.Get("single") != "", optional: options == "omitempty", path: tag.Get("path"),
		}
		if enum := tag.Get("enum"); enum != "" {
			r.enum = strings.Split(enum, ",")
		}
		if booleans := tag.Get("booleans"); booleans != "" {
			r.booleans = strings.Split(booleans, ",")
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

// kindOf returns the kind of value from which a scalar field is decoded.
func kindOf(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Float64:
		return number
	}
	return str
}

// keys lists the keys of a struct type.
func keys(rs []rule) []string {
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = r.key
	}
	return names
}

// span describes the range of a number.
func (r rule) span() string {
	switch {
	case r.min != nil && r.max != nil:
		return fmt.Sprintf("%.0f to %.0f", *r.min, *r.max)
	case r.min != nil:
		return fmt.Sprintf("%.0f or more", *r.min)
	}
	return "a smaller number"
}

// setDefaults sets every key below v that has a default.
func setDefaults(v reflect.Value) {
	for _, r := range rules(v.Type()) {
		switch field := v.Field(r.index); {
		case field.Kind() == reflect.Struct:
			setDefaults(field)
		case r.def != nil:
			r.setDefault(field)
		}
	}
}

// setDefault decodes the default; TestDefaultsAreValid checks that it is valid.
func (r rule) setDefault(v reflect.Value) {
	if r.def != nil {
		newDecoder("", Local, teamType).decode(r.def, "", v, r)
	}
}

// withDefaults returns a new value of type t, with its defaults if it is a struct.
func withDefaults(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if t.Kind() == reflect.Struct {
		setDefaults(v)
	}
	return v
}

// isDefault reports whether a scalar or a collection has the default of its key.
func isDefault(v reflect.Value, r rule) bool {
	def := reflect.New(v.Type()).Elem()
	r.setDefault(def)
	return reflect.DeepEqual(v.Interface(), def.Interface())
}

// walk visits every key of a struct type in order, nested ones included. Keys in
// lists are visited as patterns: agents[].id.
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

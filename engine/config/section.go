package config

import (
	"reflect"
	"strings"
)

var teamType = reflect.TypeFor[Team]()

// Decode reads a configuration other than a team's from YAML or JSON into T, a
// struct with the tags that Team has. Values of type Team, wherever they are in
// it, are read as Parse reads them. Check finds what no tag can say; it is
// called with whatever could be decoded. Name stands for the text in messages.
// An error is of type Problems and contains everything that is wrong.
func Decode[T any](name string, data []byte, reach Reach, check func(T, Checker)) (T, error) {
	var t, none T
	d := decoder{file: name, reach: reach, root: reflect.TypeFor[T](), places: map[string]position{}}
	root, f := parseDocument(data)
	switch {
	case f != nil:
		d.report(f.position, "", "%s", f.message)
	case root.kind == null:
		d.report(root.position, "", "the configuration is empty")
	default:
		v := reflect.ValueOf(&t).Elem()
		setDefaults(v)
		d.decode(root, "", v, rule{})
		check(t, Checker{&d})
	}
	if err := d.problems.sorted(); err != nil {
		return none, err
	}
	return t, nil
}

// Defaults returns a T in which every key that has a default has it.
func Defaults[T any]() T {
	var t T
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

// nestedTeam decodes a team that is part of something else: its keys and their
// checks are those of a team, its problems have the key where it is.
func (d *decoder) nestedTeam(n *node, key string) Team {
	inner := decoder{file: d.file, reach: d.reach, places: map[string]position{}}
	t := inner.team(n)
	within := func(k string) string { return strings.TrimSuffix(key+"."+k, ".") }
	for k, at := range inner.places {
		d.places[within(k)] = at
	}
	for _, p := range inner.problems {
		d.report(position{p.Line, p.Column}, within(p.Key), "%s", p.Message)
	}
	return t
}

// document is the type that the whole document is decoded into.
func (d *decoder) document() reflect.Type {
	if d.root != nil {
		return d.root
	}
	return teamType
}

// keyField is the key that names the variable of an API key, for remedies.
func (d *decoder) keyField() string {
	if d.document() == teamType {
		return "backend.api_key_env"
	}
	return "api_key_env"
}

// Checker is what a check of Decode reports with. Keys are written as messages
// show them: providers.local.base_url, teams.default.agents[0].id.
type Checker struct{ d *decoder }

// Key is the key of an entry of a mapping.
func (c Checker) Key(parent, name string) string { return join(parent, name) }

// Report reports a problem at the place of the key's value, or of what it would
// be part of. Where there is a problem already, the value means nothing, and
// nothing is reported.
func (c Checker) Report(key, format string, args ...any) {
	for k := key; k != ""; k = k[:max(strings.LastIndexAny(k, ".["), 0)] {
		if c.d.reported(k) {
			return
		}
	}
	c.d.reportKey(key, format, args...)
}

// Name reports a value that is none of the names it can be. What is the thing
// that is named, with its article and place.
func (c Checker) Name(key, value, what string, names []string) {
	c.Report(key, "%s is not %s; %s", quote(value), what, choice(value, names))
}

// API checks the base_url, api_key_env and params of an API server as those of a
// Backend are checked. Empty values are none.
func (c Checker) API(key, baseURL, keyEnv string, params map[string]any) {
	c.d.checkAPI(key, baseURL, keyEnv, params)
}

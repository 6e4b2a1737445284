package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

//go:embed starter.yaml
var starter string

// Starter returns a commented YAML file for newcomers, which says what Default
// says.
func Starter() []byte { return []byte(starter) }

// Load reads a team from a YAML or JSON file for a local run.
func Load(path string) (Team, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Team{}, fmt.Errorf("read the team configuration: %w; `conclave config init` writes a starter file", err)
	case err != nil:
		return Team{}, fmt.Errorf("read the team configuration: %w; it takes a file that can be read", err)
	}
	return Parse(path, data, Local)
}

// Parse reads a team from YAML or JSON. Name stands for the text in messages. An
// error is of type Problems and contains everything that is wrong.
func Parse(name string, data []byte, reach Reach) (Team, error) {
	d := decoder{file: name, reach: reach, places: map[string]position{}}
	return d.parse(data)
}

// parse reads and checks a whole document.
func (d *decoder) parse(data []byte) (Team, error) {
	root, f := parseDocument(data)
	if f != nil {
		d.report(f.position, "", "%s", f.message)
		return Team{}, d.problems.sorted()
	}
	t := d.team(root)
	if err := d.problems.sorted(); err != nil {
		return Team{}, err
	}
	return t, nil
}

// team decodes and checks a team. What it returns is complete only if no
// problem was reported.
func (d *decoder) team(root *node) Team {
	var t Team
	switch root.kind {
	case mapping:
	case null:
		d.report(root.position, "", "the configuration is empty; `conclave config init` writes a starter file")
		return t
	default:
		d.report(root.position, "", "expected a mapping with the key agents, found %s", root.found())
		return t
	}
	d.places[""] = root.position
	d.singleAgent(root)
	v := reflect.ValueOf(&t).Elem()
	setDefaults(v)
	d.mapping(root, "", v, rule{})
	d.check(t)
	return t
}

// singleAgent turns the key agent, one mapping, into a list of agents.
func (d *decoder) singleAgent(root *node) {
	both := root.get("agents") != nil
	var fields []field
	for _, f := range root.fields {
		switch {
		case f.key != "agent":
			fields = append(fields, f)
		case both:
			d.report(f.position, "agent", "both agent and agents; list every agent under agents")
		default:
			list := &node{position: f.value.position, kind: list, items: []*node{f.value}}
			fields = append(fields, field{f.position, "agents", list})
		}
	}
	root.fields = fields
}

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

// ParseSingle reads a team of one from YAML or JSON for a local run: exactly one
// agent, under agents or agent. It may do without an ID, which is empty then: who
// runs it settles which it is. All else is as Parse has it.
func ParseSingle(name string, data []byte) (Team, error) {
	d := decoder{file: name, reach: Local, single: true, places: map[string]position{}}
	return d.parse(data)
}

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

// Starter returns a commented YAML file for newcomers, equal to Default.
func Starter() []byte { return []byte(starter) }

// Load reads a team from a YAML or JSON file for a local run.
func Load(path string) (Team, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Team{}, fmt.Errorf("read the team configuration: %w; `conclave config init` writes a starter file", err)
	case err != nil:
		return Team{}, fmt.Errorf("read the team configuration: %w; give the path of a readable file", err)
	}
	return Parse(path, data, Local)
}

// Parse reads a team from YAML or JSON. Name is the file's name in messages.
// Errors are of type Problems and list everything that is wrong.
func Parse(name string, data []byte, reach Reach) (Team, error) {
	return newDecoder(name, reach, teamType).parse(data)
}

// ParseSingle reads a team of exactly one agent for a local run. Unlike in Parse
// the agent's ID may be missing; it is then empty, and the caller chooses one.
func ParseSingle(name string, data []byte) (Team, error) {
	d := newDecoder(name, Local, teamType)
	d.single = true
	return d.parse(data)
}

func (d *Decoder) parse(data []byte) (Team, error) {
	root, err := readDocument(d.file, data)
	if err != nil {
		return Team{}, err
	}
	t := d.team(root)
	if err := d.problems.sorted(); err != nil {
		return Team{}, err
	}
	return t, nil
}

// team decodes and checks a team. The result is complete only if no problem was
// reported.
func (d *Decoder) team(root *node) Team {
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
	d.positions[""] = root.position
	d.singleAgent(root)
	v := reflect.ValueOf(&t).Elem()
	setDefaults(v)
	d.mapping(root, "", v, rule{})
	d.check(t)
	return t
}

// singleAgent replaces the key agent, a mapping, with a list of agents.
func (d *Decoder) singleAgent(root *node) {
	both := root.get("agents") != nil
	var fields []field
	for _, f := range root.fields {
		switch {
		case f.key != "agent":
			fields = append(fields, f)
		case both:
			d.report(f.position, "agent", "both agent and agents; list every agent under agents")
		default:
			agents := &node{position: f.value.position, kind: list, items: []*node{f.value}}
			fields = append(fields, field{f.position, "agents", agents})
		}
	}
	root.fields = fields
}

// Decode reads a configuration other than a team's from YAML or JSON into T, a
// struct with tags like Team's. Values of type Team within it are read as by
// Parse. Check reports violations that tags cannot express; it is called with
// everything that could be decoded. Errors are of type Problems.
func Decode[T any](name string, data []byte, reach Reach, check func(T, *Decoder)) (T, error) {
	var t, zero T
	d := newDecoder(name, reach, reflect.TypeFor[T]())
	root, err := readDocument(name, data)
	switch {
	case err != nil:
		return zero, err
	case root.kind == null:
		d.report(root.position, "", "the configuration is empty")
	default:
		v := reflect.ValueOf(&t).Elem()
		setDefaults(v)
		d.decode(root, "", v, rule{})
		check(t, d)
	}
	if err := d.problems.sorted(); err != nil {
		return zero, err
	}
	return t, nil
}

// Defaults returns a T with every default set.
func Defaults[T any]() T {
	var t T
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

// nestedTeam decodes a team within another configuration. Its problems get the
// key under which it stands.
func (d *Decoder) nestedTeam(n *node, key string) Team {
	inner := newDecoder(d.file, d.reach, teamType)
	t := inner.team(n)
	within := func(k string) string { return strings.TrimSuffix(key+"."+k, ".") }
	for k, at := range inner.positions {
		d.positions[within(k)] = at
	}
	for _, p := range inner.problems {
		d.report(position{p.Line, p.Column}, within(p.Key), "%s", p.Message)
	}
	return t
}

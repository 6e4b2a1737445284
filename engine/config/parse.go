package config

import (
	_ "embed"
	"fmt"
	"os"
	"reflect"
	"slices"
)

//go:embed starter.yaml
var starter string

// Starter returns a commented YAML file for newcomers, which says what Default
// says.
func Starter() []byte { return []byte(starter) }

// Load reads a team from a YAML or JSON file for a local run.
func Load(path string) (Team, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Team{}, fmt.Errorf("read the team configuration: %w; `conclave config init` writes a starter file", err)
	}
	return Parse(path, data, Local)
}

// Parse reads a team from YAML or JSON. Name stands for the text in messages. An
// error is of type Problems and contains everything that is wrong.
func Parse(name string, data []byte, reach Reach) (Team, error) {
	d := decoder{file: name, reach: reach, places: map[string]position{}}
	root, f := parseDocument(data)
	if f != nil {
		d.report(f.position, "", "%s", f.message)
		return Team{}, d.problems.sorted()
	}
	switch root.kind {
	case mapping:
	case null:
		d.report(root.position, "", "the configuration is empty; `conclave config init` writes a starter file")
		return Team{}, d.problems.sorted()
	default:
		d.report(root.position, "", "expected a mapping with the key agents, found %s", root.found())
		return Team{}, d.problems.sorted()
	}
	d.singleAgent(root)
	var t Team
	setDefaults(reflect.ValueOf(&t).Elem())
	d.decode(root, "", reflect.ValueOf(&t).Elem(), rule{})
	d.check(t)
	if err := d.problems.sorted(); err != nil {
		return Team{}, err
	}
	return t, nil
}

// singleAgent turns the key agent, one mapping, into a list of agents.
func (d *decoder) singleAgent(root *node) {
	single := slices.IndexFunc(root.fields, func(f field) bool { return f.key == "agent" })
	if single < 0 {
		return
	}
	if root.get("agents") != nil {
		d.report(root.fields[single].position, "agent", "both agent and agents; list every agent under agents")
		root.fields = slices.Delete(root.fields, single, single+1)
		return
	}
	f := &root.fields[single]
	f.key, f.value = "agents", &node{position: f.value.position, kind: list, items: []*node{f.value}}
}

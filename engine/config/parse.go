package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
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

package config

// ParseSingle reads a team of one from YAML or JSON for a local run: exactly one
// agent, under agents or agent. It may do without an ID, which is empty then: who
// runs it settles which it is. All else is as Parse has it.
func ParseSingle(name string, data []byte) (Team, error) {
	d := decoder{file: name, reach: Local, single: true, places: map[string]position{}}
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

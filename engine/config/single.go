package config

// ParseSingle reads a team of one from YAML or JSON for a local run: exactly one
// agent, under agents or agent. It may do without an ID, which is empty then: who
// runs it settles which it is. All else is as Parse has it.
func ParseSingle(name string, data []byte) (Team, error) {
	d := decoder{file: name, reach: Local, single: true, places: map[string]position{}}
	return d.parse(data)
}

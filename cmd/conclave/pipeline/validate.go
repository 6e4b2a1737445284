package pipeline

import (
	"fmt"
	"io"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"

	"conclave/cmd/conclave/progress"
	"conclave/engine/config"
)

// checked is the result of checking a pipeline's file.
type checked struct {
	team.Checked
	Warnings []team.Problem `json:"warnings"`
	Graph    string         `json:"graph,omitempty"`
}

func validate(c *hall.CLI, name string, graph bool) error {
	f, err := readFile(name, config.Local)
	if c.Scripted() {
		v := checked{Checked: team.Checked{File: name, Valid: err == nil, Problems: team.Problems(err)}, Warnings: []team.Problem{}}
		if len(f.warnings) > 0 {
			v.Warnings = team.Problems(f.warnings)
		}
		if graph && err == nil {
			v.Graph = f.Mermaid()
		}
		if printErr := c.PrintJSON(v); printErr != nil || err == nil {
			return printErr
		}
		return hall.Exit(hall.ExitUsage)
	}
	if err != nil {
		return err
	}
	for _, w := range f.warnings {
		c.Infof("warning: %v", w)
	}
	text := fmt.Sprintf("%s: ok, %s: %s\n", name, progress.Plural(len(f.Steps), "step"), describe(f.Pipeline))
	if graph {
		text = f.Mermaid()
	}
	_, err = io.WriteString(c.Stdout, text)
	return hall.PrintError(err)
}

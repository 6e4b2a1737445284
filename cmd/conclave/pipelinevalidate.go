package main

import (
	"fmt"
	"io"

	"conclave/cmd/conclave/progress"
	"conclave/engine/config"
)

// checkedPipeline is the verdict on a pipeline's file.
type checkedPipeline struct {
	checked
	Warnings []problem `json:"warnings"`
	Graph    string    `json:"graph,omitempty"`
}

func (c *cli) validatePipeline(file string, graph bool) error {
	f, err := readPipeline(file, config.Local)
	if !c.people() {
		v := checkedPipeline{checked: checked{File: file, Valid: err == nil, Problems: problemsOf(err)}, Warnings: []problem{}}
		if len(f.warnings) > 0 {
			v.Warnings = problemsOf(f.warnings)
		}
		if graph && err == nil {
			v.Graph = f.Mermaid()
		}
		if printErr := c.printJSON(v); printErr != nil || err == nil {
			return printErr
		}
		return silent(exitUsage)
	}
	if err != nil {
		return err
	}
	for _, w := range f.warnings {
		c.say("warning: %v", w)
	}
	text := fmt.Sprintf("%s: ok, %s: %s\n", file, progress.Plural(len(f.Steps), "step"), describePipeline(f.Pipeline))
	if graph {
		text = f.Mermaid()
	}
	_, err = io.WriteString(c.stdout, text)
	return unprinted(err)
}

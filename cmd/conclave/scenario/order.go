package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

// order is the validated input of one command's runs.
type order struct {
	flags   flags
	dir     string // directory as given on the command line
	project *project.Project
	values  project.Values
	tester  config.Team
	source  string // source of the tester
	worker  *team.Worker
	slugs   []string
	runs    []*run
}

// run is one run of a scenario.
type run struct {
	slug, id, title string
	input           scenarioflow.Input

	copy     *project.Copy   // nil on a cluster without a bucket
	document []byte          // the newest result.json; nil before the first
	result   scenario.Run    // document as parsed
	earlier  int             // executions of a retried run that have ended
	shown    int             // steps whose end was printed
	paused   bool            // the pause was printed
	end      *artifact.Error // how Temporal cut it off; nil if it did not
	problem  error           // why the run was not started, or not followed to its end

	described  time.Time // when the server was last asked for activities
	activities progress.Log
}

func (r *run) workflow() string { return "scenario-" + r.slug + "-" + r.id }

// String names the run in messages.
func (r *run) String() string { return "run " + r.id + " of scenario " + r.slug }

// load reads the definitions of all runs before any is started, so that an invalid one prevents
// them all.
func (o *order) load(slug string) error {
	o.slugs = []string{slug}
	if o.flags.several() {
		var err error
		if o.slugs, err = selectSlugs(o.project, o.flags.tags); err != nil {
			return err
		}
	}
	var problems []error
	for _, slug := range o.slugs {
		load := o.newRun
		if o.flags.retry != "" {
			load = o.retriedRun
		}
		r, err := load(slug)
		problems = append(problems, err)
		o.runs = append(o.runs, r)
	}
	return errors.Join(problems...)
}

// retriedRun returns the run named by --retry.
func (o *order) retriedRun(slug string) (*run, error) {
	d, err := o.project.Describe(slug)
	if err != nil {
		return nil, err
	}
	r := &run{slug: slug, id: o.flags.retry, title: d.Plan.Title}
	r.input.Resume, r.input.Plan.Slug = true, slug
	last, err := o.project.Run(slug, r.id)
	r.earlier = max(1, last.Execution)
	if err == nil && last.Over() && last.Status == scenario.Pass {
		err = fmt.Errorf("retry %s: it passed; start a new one without --retry", r)
	}
	return r, err
}

// newRun returns a new run of the scenario's current definition.
func (o *order) newRun(slug string) (*run, error) {
	d, err := o.project.Load(slug, o.values)
	if err != nil {
		return nil, err
	}
	d.Plan.Only = o.flags.only
	if err := d.Plan.Check(); err != nil {
		return nil, err
	}
	size := len(d.PRD)
	for _, content := range d.Files {
		size += len(content)
	}
	if size > scenarioflow.MaxDefinition {
		return nil, fmt.Errorf("the steps of scenario %s and prd.md have %d bytes together, at most %d are accepted; put large material where the agents can read it", slug, size, scenarioflow.MaxDefinition)
	}
	earlier, _, err := o.project.Runs(slug)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(earlier, func(e scenario.Run) bool { return e.RunID == o.flags.id }) {
		return nil, fmt.Errorf("scenario %s has a run %s already; choose another --session-id, or continue that run with --retry", slug, o.flags.id)
	}
	r := &run{slug: slug, id: cmp.Or(o.flags.id, hall.NewRunID(time.Now())), title: d.Plan.Title, input: scenarioflow.Input{
		Plan: d.Plan, Files: d.Files, PRD: d.PRD, Project: filepath.Base(o.project.Dir()),
	}}
	for _, e := range earlier {
		r.input.After = max(r.input.After, e.RunNumber)
	}
	return r, nil
}

package scenario

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"conclave/cmd/conclave/view/page"
	"conclave/engine/scenario"
)

// writeHTML writes a page about the runs, with an index of all runs of the directory.
func writeHTML(o *order) error {
	var runs []page.ScenarioRun
	for _, r := range o.runs {
		one := page.ScenarioRun{Run: r.result, Evidence: o.evidenceReader(r), Link: o.evidenceLink(r)}
		one.Title = r.title
		if one.Scenario == "" {
			one.Scenario, one.RunID = r.slug, r.id
		}
		if r.problem != nil {
			one.Problem = r.problem.Error()
		}
		runs = append(runs, one)
	}
	all, err := o.allRuns()
	if err != nil {
		return fmt.Errorf("write the page of the runs: %w", err)
	}
	html, err := page.Scenarios(runs, all, time.Now())
	if err == nil {
		err = os.WriteFile(o.flags.html, html, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the page of the runs: %w", err)
	}
	return nil
}

func (o *order) allRuns() ([]scenario.Run, error) {
	slugs, err := o.project.Slugs()
	if err != nil {
		return nil, err
	}
	var all []scenario.Run
	for _, slug := range slugs {
		runs, _, err := o.project.Runs(slug) // invalid results are reported by status
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// evidencePath returns the path of a piece of evidence, or "" if it would leave the folder of the run.
func (o *order) evidencePath(r *run, name string) string {
	name = filepath.FromSlash(name)
	if !filepath.IsLocal(name) {
		return ""
	}
	return o.project.Path(r.slug, "runs", r.id, name)
}

// evidenceReader returns a function that reads evidence of a run. It returns nil for a file that cannot be
// shown.
func (o *order) evidenceReader(r *run) func(string) []byte {
	return func(name string) []byte {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil
		}
		return o.project.Evidence(r.slug, r.id, name)
	}
}

// evidenceLink returns a function for the address of evidence relative to the page.
func (o *order) evidenceLink(r *run) func(string) string {
	from, err := filepath.Abs(filepath.Dir(o.flags.html))
	return func(name string) string {
		file := o.evidencePath(r, name)
		to, absErr := filepath.Abs(file)
		if err != nil || absErr != nil || file == "" {
			return ""
		}
		relative, relErr := filepath.Rel(from, to)
		if relErr != nil {
			return ""
		}
		parts := strings.Split(filepath.ToSlash(relative), "/")
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		return "./" + strings.Join(parts, "/")
	}
}

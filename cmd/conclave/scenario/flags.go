package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"conclave/cmd/conclave/project"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

// flags are the flags of run besides the common ones.
type flags struct {
	inputs
	all, offline, failFast bool
	tags, only             []string
	retry, junit, html     string
	id                     string // ID of the runs; empty for a new ID each
	parallel               int
	stepTimeout            time.Duration // 0 for that of the run to retry
}

// inputs has the flags for the values of placeholders.
type inputs struct {
	baseURL string
	vars    []string
}

func (i *inputs) add(set *pflag.FlagSet) {
	set.StringVar(&i.baseURL, "base-url", "", "test the application at `URL` instead of that of prd.md")
	set.StringArrayVar(&i.vars, "var", nil, "the value of a placeholder ${NAME} in steps and prd.md, `NAME=VALUE`; may be repeated")
}

// values checks the flags and returns their values.
func (i *inputs) values() (v project.Values, err error) {
	if i.baseURL != "" {
		u, err := url.Parse(i.baseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return v, fmt.Errorf("--base-url %.200q is not an address; give one such as https://staging.example.org", i.baseURL)
		}
	}
	v.BaseURL = strings.TrimRight(i.baseURL, "/")
	if v.Vars, err = scenario.ParseVars(i.vars); err != nil {
		return v, fmt.Errorf("--var: %w", err)
	}
	return v, nil
}

// several reports whether --all or --tag selects the scenarios.
func (f flags) several() bool { return f.all || len(f.tags) > 0 }

func (f flags) check(slug string) error {
	switch {
	case f.several() && slug != "":
		return errors.New("SLUG and --all or --tag exclude each other: name one scenario, or select several")
	case !f.several() && slug == "":
		return errors.New("scenario run needs SLUG, --all or --tag; see `conclave scenario run --help`")
	case f.several() && f.retry != "":
		return errors.New("--retry continues a run of one scenario: name its SLUG instead of --all or --tag")
	case f.several() && len(f.only) > 0:
		return errors.New("--only names a step of one scenario: name its SLUG instead of --all or --tag")
	case f.retry != "" && (len(f.only) > 0 || f.baseURL != "" || len(f.vars) > 0):
		return errors.New("--retry keeps the definition of the run: leave --only, --base-url and --var out, or start a new run")
	case f.id != "" && f.retry != "":
		return errors.New("--session-id names a new run, and --retry one that exists; leave one out")
	case f.parallel < 1:
		return fmt.Errorf("--parallel is %d; it takes at least 1", f.parallel)
	case f.retry != "" && f.stepTimeout == 0:
	case f.stepTimeout < time.Second || f.stepTimeout > scenarioflow.MaxStepSeconds*time.Second:
		return fmt.Errorf("--step-timeout is %s; it takes 1s to %s", f.stepTimeout, scenarioflow.MaxStepSeconds*time.Second)
	}
	for _, report := range []struct{ flag, file string }{{"--junit", f.junit}, {"--html", f.html}} {
		if info, err := os.Stat(report.file); report.file != "" && err == nil && info.IsDir() {
			return fmt.Errorf("%s %s is a directory; name a file", report.flag, report.file)
		}
		if _, err := os.Stat(filepath.Dir(report.file)); report.file != "" && err != nil {
			return fmt.Errorf("%s %s: %w; make the directory first", report.flag, report.file, err)
		}
	}
	if err := checkNames(slug, f.id); err != nil {
		return err
	}
	return checkNames(slug, f.retry)
}

// selectSlugs returns the scenarios with at least one of the tags, or all scenarios if
// there are no tags.
func selectSlugs(from *project.Project, tags []string) ([]string, error) {
	all, err := from.Slugs()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no scenario in %s; `conclave scenario create` makes one", from.Dir())
	}
	if len(tags) == 0 {
		return all, nil
	}
	var selected, known []string
	for _, slug := range all {
		d, err := from.Describe(slug)
		if err != nil {
			return nil, err
		}
		known = append(known, d.Tags...)
		if slices.ContainsFunc(d.Tags, func(tag string) bool { return slices.Contains(tags, tag) }) {
			selected = append(selected, slug)
		}
	}
	if len(selected) == 0 {
		slices.Sort(known)
		return nil, fmt.Errorf("no scenario in %s has the tag %s; the tags are: %s", from.Dir(), strings.Join(tags, " or "),
			cmp.Or(strings.Join(slices.Compact(known), ", "), "none"))
	}
	return selected, nil
}

package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/scenario"
)

// source has the flags that define a scenario.
type source struct {
	title, from string
	steps, tags []string
}

func createCommand(c *cli.CLI) *cobra.Command {
	var source source
	cmd := &cobra.Command{
		Use:   "create DIR SLUG [flags]",
		Short: "Write a scenario, from flags or from a Markdown file",
		Long: `Write the scenario SLUG to DIR/scenarios/SLUG: meta.yaml, and a file for each step.
DIR and a prd.md to fill in are created if they are missing. An existing scenario
gets the new steps; its statistics and runs are kept, and the files of removed steps
are deleted.

The Markdown file has a heading ## for each step, with the optional headings
### Description, ### Preconditions, ### Actions and ### Expected Outcome below it.`,
		Example: `  conclave scenario create shop buy --title "Buying a lamp" \
      --step "Open the shop: go to the start page" --step "Buy: press Buy and look at the basket" --tag smoke
  conclave scenario create shop sign-in --from journey.md`,
		Args: cli.Arguments("DIR", "SLUG"),
		RunE: func(_ *cobra.Command, args []string) error { return createScenario(c, args[0], args[1], source) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&source.title, "title", "", "`TITLE` of the scenario (default that of the file, else SLUG)")
	f.StringArrayVar(&source.steps, "step", nil, "a step, `\"TITLE: ACTIONS\"`; once for each, in order")
	f.StringVar(&source.from, "from", "", "read the steps from a Markdown `FILE`")
	f.StringArrayVar(&source.tags, "tag", nil, "a `TAG` of the scenario; may be repeated")
	return cmd
}

// created is the JSON output of create.
type created struct {
	Slug    string             `json:"slug"`
	New     bool               `json:"new"`
	Path    string             `json:"path"`
	Steps   []scenario.StepRef `json:"steps"`
	Removed []string           `json:"removed"`
}

// createScenario checks everything before it makes the directory, so that a mistake leaves none behind.
func createScenario(c *cli.CLI, dir, slug string, source source) error {
	if err := checkNames(slug, ""); err != nil {
		return err
	}
	definition, err := source.readDefinition()
	if err != nil {
		return err
	}
	plan, files, err := definition.Plan(slug)
	if err != nil {
		return fmt.Errorf("create scenario %s: %w", slug, err)
	}
	p, err := MakeProject(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	saved, err := p.Save(plan, files, source.tags)
	if err != nil {
		return err
	}
	template, err := p.Template()
	if err != nil {
		return err
	}
	if definition.Before != "" {
		c.Infof("note: the text before the first step of %s is for people; agents do not see it", source.from)
	}
	if c.Scripted() {
		return c.PrintJSON(created{slug, saved.New, p.Path(slug), plan.Steps, append([]string{}, saved.Removed...)})
	}
	did := "written"
	if !saved.New {
		did = "updated; its statistics and runs are kept"
	}
	err = c.Print(fmt.Sprintf("scenario %s %s: %s in %s\n", slug, did, cli.Plural(len(plan.Steps), "step"), p.Path(slug)))
	if template {
		c.Infof("%s tells agents about the application: fill it in", p.PRD())
	}
	return err
}

func (s source) readDefinition() (scenario.Definition, error) {
	d := scenario.Definition{}
	switch {
	case s.from != "" && len(s.steps) > 0:
		return d, errors.New("--from and --step exclude each other: the steps are in a file or on the command line; leave one out")
	case s.from == "" && len(s.steps) == 0:
		return d, errors.New(`a scenario needs steps: give --step "TITLE: ACTIONS" once for each, or --from FILE`)
	}
	for _, tag := range s.tags {
		if strings.TrimSpace(tag) == "" {
			return d, errors.New("--tag is given but empty; give it a value, or leave it out")
		}
	}
	if s.from != "" {
		data, err := teams.ReadFile(s.from)
		if err != nil {
			return d, fmt.Errorf("read the scenario: %w", err)
		}
		if !utf8.Valid(data) {
			return d, fmt.Errorf("read the scenario: %s is not UTF-8 text; convert it, for instance with iconv", s.from)
		}
		if d, err = scenario.ParseMarkdown(string(data)); err != nil {
			return d, fmt.Errorf("read the scenario %s: %w", s.from, err)
		}
	}
	for _, line := range s.steps {
		step, err := scenario.ParseStep(line)
		if err != nil {
			return d, err
		}
		d.Steps = append(d.Steps, step)
	}
	d.Title = cmp.Or(s.title, d.Title)
	return d, nil
}

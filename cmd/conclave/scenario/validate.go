package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/team"
	"conclave/engine/scenario"
)

func validateCommand(c *hall.CLI) *cobra.Command {
	var in inputs
	cmd := &cobra.Command{
		Use:   "validate DIR [SLUG]",
		Short: "Check scenarios, prd.md and the tester without running anything",
		Long: `Check the scenarios of DIR, or one of them: meta.yaml, the files of the steps and
their placeholders, prd.md, and the configuration of the tester with its MCP
programs. It asks no model, starts nothing and changes nothing. Keys and programs that
this machine lacks are warnings.`,
		Example: `  conclave scenario validate shop
  conclave scenario validate shop buy --var TENANT=acme --json`,
		Args: hall.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validate(cmd.Context(), c, in, args[0], append(args, "")[1])
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	in.add(set)
	return cmd
}

// validated is the JSON output of validate.
type validated struct {
	Valid     bool         `json:"valid"`
	Scenarios []checkedOne `json:"scenarios"`
	Tester    *string      `json:"tester_problem"` // null for none
}

// checkedOne is the result of checking one scenario.
type checkedOne struct {
	Slug    string  `json:"slug"`
	Steps   int     `json:"steps"`
	Problem *string `json:"problem"` // null for none
}

func validate(ctx context.Context, c *hall.CLI, in inputs, dir, slug string) error {
	if err := checkNames(slug, ""); err != nil {
		return err
	}
	values, err := in.values()
	if err != nil {
		return err
	}
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	slugs := []string{slug}
	if slug == "" {
		if slugs, err = selectSlugs(p, nil); err != nil {
			return err
		}
	}
	result := validated{Valid: true, Scenarios: []checkedOne{}}
	var problems []error
	note := func(err error) *string {
		if err == nil {
			return nil
		}
		result.Valid, problems = false, append(problems, err)
		return new(err.Error())
	}
	unread := ""
	for _, slug := range slugs {
		d, err := p.Load(slug, values)
		if prd, err := scenario.ParseProject(d.PRD); err == nil {
			unread = prd.Unread // all scenarios have the same prd.md
		}
		result.Scenarios = append(result.Scenarios, checkedOne{Slug: slug, Steps: len(d.Plan.All()), Problem: note(err)})
	}
	result.Tester = note(checkTester(ctx, c, dir))
	if unread != "" {
		c.Warnf("%s", unread)
	}
	if c.Scripted() {
		if err := c.PrintJSON(result); err != nil || result.Valid {
			return err
		}
		return hall.Exit(hall.ExitUsage)
	}
	for _, name := range values.Vars.Unused() {
		c.Warnf("--var %s: no file of the scenarios has ${%s}", name, name)
	}
	if result.Valid {
		return c.Print(validText(result.Scenarios))
	}
	return hall.Exitf(hall.ExitUsage, "%w", errors.Join(problems...))
}

// checkTester returns an error if the tester's configuration is invalid. For missing keys
// and programs it only warns, because the run may execute on another machine.
func checkTester(ctx context.Context, c *hall.CLI, dir string) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	w, err := team.OpenWorker(c, t)
	if err != nil {
		return err
	}
	tester, source, err := readTester(c, t, false, dir)
	if err != nil || t.Cluster {
		return err
	}
	tester = team.Resolve(tester)
	for _, err := range []error{w.Startable(tester), w.Serves(ctx, tester)} {
		if err != nil {
			c.Warnf("%s cannot run here: %v", source, err)
		}
	}
	return nil
}

func validText(all []checkedOne) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s: valid, %s\n", s.Slug, progress.Plural(s.Steps, "step"))
	}
	return b.String()
}

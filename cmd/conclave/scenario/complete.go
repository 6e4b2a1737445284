package scenario

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/project"
	"conclave/engine/scenario"
)

// complete sets the completion of a subcommand's arguments and flags from the scenarios in its DIR.
func complete(cmd *cobra.Command) {
	if strings.Contains(cmd.Use, "SLUG") && cmd.Name() != "create" { // a new scenario has a new slug
		hasRun := strings.Contains(cmd.Use, "RUN_ID")
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) == 0:
				return nil, cobra.ShellCompDirectiveFilterDirs
			case len(args) == 1:
				return words(args, slugs), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 2 && hasRun:
				return words(args, runIDs), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, find := range map[string]func(*project.Project, string) []string{"tag": tags, "only": stepIDs, "retry": runIDs} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return words(args, find), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}) // fails for unknown flags only
		}
	}
}

// words opens the project given by the arguments DIR and SLUG and returns the words that find finds
// in it.
func words(args []string, find func(*project.Project, string) []string) []string {
	if len(args) == 0 {
		return nil
	}
	p, err := project.Open(args[0])
	if err != nil {
		return nil
	}
	defer p.Close()
	return find(p, append(args, "")[1])
}

func slugs(p *project.Project, _ string) []string {
	all, _ := p.Slugs()
	return all
}

func tags(p *project.Project, _ string) []string {
	var all []string
	for _, slug := range slugs(p, "") {
		if d, err := p.Describe(slug); err == nil {
			all = append(all, d.Tags...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func stepIDs(p *project.Project, slug string) []string {
	d, err := p.Describe(slug)
	if err != nil {
		return nil
	}
	var all []string
	for _, s := range d.Plan.Steps {
		all = append(all, s.ID+"\t"+s.Title)
	}
	return all
}

// runIDs returns the IDs of a scenario's runs, the newest first.
func runIDs(p *project.Project, slug string) []string {
	if scenario.CheckSlug(slug) != nil {
		return nil
	}
	found, _, err := p.Runs(slug)
	if err != nil {
		return nil
	}
	var all []string
	for _, r := range found {
		all = append(all, r.RunID+"\t"+statusText(r))
	}
	return all
}

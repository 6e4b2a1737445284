package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/engine/text"
)

// Group runs a command that has only subcommands: it prints the help, or suggests the nearest one.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

func unknownCommand(group *cobra.Command, word string) error {
	const typos = 2
	group.SuggestionsMinimumDistance = typos
	hint := "; see `" + group.CommandPath() + " --help`"
	if near := group.SuggestionsFor(word); len(near) > 0 {
		hint = "; did you mean `" + group.CommandPath() + " " + near[0] + "`?"
	}
	return fmt.Errorf("unknown command %q for %q%s", text.Truncate(word, MaxEcho), group.CommandPath(), hint)
}

// helpCommand replaces cobra's help command, which exits with 0 for an unknown command.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Example: `  conclave help run
  conclave help pipeline validate`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			target, err := findSubcommand(root, args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range target.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			target, err := findSubcommand(root, args)
			if err != nil {
				return err
			}
			target.InitDefaultHelpFlag()
			target.InitDefaultVersionFlag()
			return target.Help()
		},
	}
}

func findSubcommand(root *cobra.Command, path []string) (*cobra.Command, error) {
	target := root
	for _, name := range path {
		at := slices.IndexFunc(target.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name || sub.HasAlias(name) })
		if at < 0 {
			return nil, unknownCommand(target, name)
		}
		target = target.Commands()[at]
	}
	return target, nil
}

// shownFlags is the annotation for the common flags in the help of a command and its subcommands.
const shownFlags = "conclave.shown-flags"

// ShowFlags limits the common flags in the help of a command and its subcommands to those
// that affect it. The others are still accepted.
func ShowFlags(cmd *cobra.Command, names ...string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[shownFlags] = strings.Join(names, " ")
}

// HideFlags hides the common flags that do not affect a command, until restore is called.
func HideFlags(cmd *cobra.Command) (restore func()) {
	var hidden []*pflag.Flag
	for c := cmd; c != nil; c = c.Parent() {
		names, ok := c.Annotations[shownFlags]
		if !ok {
			continue
		}
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !slices.Contains(strings.Fields(names), f.Name) {
				f.Hidden = true
				hidden = append(hidden, f)
			}
		})
		break
	}
	return func() {
		for _, f := range hidden {
			f.Hidden = false
		}
	}
}

func (c *CLI) configureTree(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors, root.DisableAutoGenTag = true, true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return refuseEmptyFlags(cmd) }
	root.SetFlagErrorFunc(flagError)
	if root.RunE == nil {
		root.RunE = Group
	}
	root.Args = cobra.ArbitraryArgs // Group reports unknown commands
	root.SetHelpCommand(helpCommand(root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		defer HideFlags(cmd)()
		help(cmd, args)
	})
	c.addFlags(root.PersistentFlags())
	_ = root.MarkPersistentFlagFilename("config", "yaml", "yml", "json") // fails for unknown flags only
	_ = root.MarkPersistentFlagDirname("data-dir")
}

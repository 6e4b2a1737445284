package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spf13/cobra/doc"

	"conclave/cmd/conclave/cli"
)

// groups are the groups of commands in the help of the root.
var groups = []struct{ title, names string }{
	{"Ask a team:", "run start watch status list result"},
	{"Steer a session:", "say inbox reply approve deny pause resume retry finish cancel"},
	{"Look at a session:", "view transcript export pull"},
	{"Bring and take files:", "upload files diff apply"},
	{"Ask from other programs:", "serve mcp"},
	{"Graphs, journeys and single steps:", "pipeline scenario step schedule"},
	{"Choose a team:", "config models eval"},
	{"Operate:", "dev worker doctor sandbox codec prune delete version man"},
}

// groupCommands puts the commands of root into groups and, unless cobra sorts them, in the order of these.
// Ungrouped commands come first.
func groupCommands(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for name := range strings.FieldsSeq(g.names) {
			for _, c := range root.Commands() {
				if c.Name() == name {
					c.GroupID = g.title
					root.RemoveCommand(c) // and to the end
					root.AddCommand(c)
					break
				}
			}
		}
	}
}

// Groups of common flags.
const (
	connectionFlags = "address namespace data-dir"
	queueFlags      = connectionFlags + " task-queue"
	storeFlags      = "bucket prefix"
	outputFlags     = "json automation"
)

// commonFlags lists the common flags in the help of commands, by command path. A command
// without an entry shows the flags of its parent, or all.
var commonFlags = map[string]string{
	"watch":             queueFlags + " " + storeFlags + " " + outputFlags,
	"status":            queueFlags + " " + outputFlags,
	"result":            queueFlags + " " + storeFlags + " " + outputFlags,
	"say":               queueFlags + " " + outputFlags,
	"inbox":             connectionFlags + " " + storeFlags + " json",
	"reply":             queueFlags + " " + outputFlags,
	"approve":           queueFlags + " " + outputFlags,
	"deny":              queueFlags + " " + outputFlags,
	"pause":             queueFlags + " " + outputFlags,
	"resume":            queueFlags + " " + outputFlags,
	"finish":            queueFlags + " " + outputFlags,
	"cancel":            queueFlags + " " + outputFlags,
	"retry":             queueFlags + " " + outputFlags,
	"list":              connectionFlags + " " + storeFlags + " json",
	"pipeline list":     connectionFlags + " " + storeFlags + " json",
	"pipeline validate": outputFlags,
	"schedule":          queueFlags + " " + storeFlags + " " + outputFlags,
	"pull":              storeFlags + " data-dir " + outputFlags,
	"view":              queueFlags + " " + storeFlags + " " + outputFlags,
	"export":            storeFlags + " data-dir",
	"files":             storeFlags + " data-dir " + outputFlags,
	"diff":              storeFlags + " data-dir " + outputFlags,
	"apply":             storeFlags + " data-dir " + outputFlags,
	"transcript":        storeFlags + " data-dir " + outputFlags,
	"prune":             connectionFlags + " " + storeFlags + " " + outputFlags,
	"delete":            connectionFlags + " " + storeFlags + " " + outputFlags,
	"step":              "config " + outputFlags,
	"dev":               "config data-dir task-queue json",
	"serve":             "config " + queueFlags + " " + storeFlags + " json",
	"serve key":         outputFlags,
	"mcp":               "config " + queueFlags + " " + storeFlags,
	"worker":            "config " + queueFlags + " " + storeFlags,
	"scenario create":   outputFlags,
	"scenario watch":    queueFlags + " " + storeFlags + " " + outputFlags,
	"scenario pause":    queueFlags + " " + outputFlags,
	"scenario resume":   queueFlags + " " + outputFlags,
	"scenario cancel":   queueFlags + " " + storeFlags + " " + outputFlags,
	"scenario status":   connectionFlags + " " + storeFlags + " " + outputFlags,
	"scenario list":     outputFlags,
	"models":            "config " + outputFlags,
	"models list":       outputFlags,
	"doctor":            "config " + queueFlags + " " + storeFlags + " " + outputFlags,
	"eval":              outputFlags,
	"eval run":          "config " + queueFlags + " " + storeFlags + " " + outputFlags,
	"eval gen":          "",
	"codec":             "json",
	"codec serve":       "",
	"config":            "json",
	"config schema":     "",
	"config validate":   "config json",
	"config approvals":  "json",
	"sandbox":           outputFlags,
	"version":           "json",
	"man":               "",
}

func showFlags(root *cobra.Command) {
	for path, names := range commonFlags {
		if cmd, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			cli.ShowFlags(cmd, strings.Fields(names)...)
		}
	}
}

func manCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to DIR",
		Long: `Write a manual page for every command to DIR, such as conclave-run.1. DIR is made if it
is missing; pages that exist are replaced.`,
		Example: `  conclave man ~/.local/share/man/man1
  man conclave-run`,
		Args: cli.Arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			written, err := writePages(cmd.Root(), args[0])
			if err != nil {
				return fmt.Errorf("write the manual pages to %s: %w", args[0], err)
			}
			return c.Print(fmt.Sprintf("%d manual pages written to %s\n", written, args[0]))
		},
	}
}

// writePages writes the manual pages of a command and its visible subcommands. Each page
// omits the common flags that have no effect on its command.
func writePages(cmd *cobra.Command, dir string) (written int, err error) {
	restore := cli.HideFlags(cmd)
	err = writePage(cmd, dir)
	restore()
	if err != nil {
		return written, err
	}
	written++
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		more, err := writePages(sub, dir)
		if written += more; err != nil {
			return written, err
		}
	}
	return written, nil
}

func writePage(cmd *cobra.Command, dir string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	file, err := os.Create(dir + string(os.PathSeparator) + name + ".1")
	if err != nil {
		return err
	}
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "conclave", Manual: "Conclave Manual"}
	if err := doc.GenMan(cmd, header, file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

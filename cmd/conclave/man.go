package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"conclave/cmd/conclave/cli"
)

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

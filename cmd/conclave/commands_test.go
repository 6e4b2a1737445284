package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

// TestCommandsPage compares docs/commands.md with the commands; CONCLAVE_WRITE=1, as in make docs, writes it.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/commands.md"
	root := rootCommand(&cli.CLI{})
	groupCommands(root)
	page := commandsPage(root)
	if os.Getenv("CONCLAVE_WRITE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page, string(written), "run `make docs`")
}

// TestShorts checks that the one-line help of every command begins with a verb.
func TestShorts(t *testing.T) {
	t.Parallel()
	for _, c := range everyCommand(rootCommand(&cli.CLI{})) {
		verb, _, _ := strings.Cut(c.Short, " ")
		require.Contains(t, verbs, strings.TrimSuffix(verb, ","), "%s: %s", c.CommandPath(), c.Short)
	}
}

const verbs = `Take Start Follow Show Print List Send Suspend Continue Run Decide Cancel Open Copy Write Store Apply Serve
	Test Check Ask Measure Compare Generate Make Encrypt Decrypt Remove Report Translate Trust Explain Give Name Answer Allow Refuse Say`

// commandsPage lists every command by group.
func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n`conclave COMMAND --help` has the flags and examples of each; `make docs` writes this page from them.\n")
	for _, g := range groups {
		b.WriteString("\n## " + strings.TrimSuffix(g.title, ":") + "\n\n| command | |\n|---|---|\n")
		for _, name := range strings.Fields(g.names) {
			for _, c := range root.Commands() {
				if c.Name() == name {
					writeRows(&b, c)
				}
			}
		}
	}
	return b.String()
}

func writeRows(b *strings.Builder, c *cobra.Command) {
	if c.Runnable() {
		use := strings.TrimPrefix(c.UseLine(), "conclave ")
		use = strings.ReplaceAll(strings.ReplaceAll(use, " [flags]", ""), "|", "\\|")
		b.WriteString("| `" + use + "` | " + c.Short + " |\n")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			writeRows(b, sub)
		}
	}
}

// everyCommand returns the visible commands below c.
func everyCommand(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(append(all, sub), everyCommand(sub)...)
		}
	}
	return all
}

package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func commandTree() *cobra.Command {
	run := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "conclave", Version: "1.2", Args: cobra.ArbitraryArgs}
	group := &cobra.Command{Use: "pipeline", RunE: Group}
	group.AddCommand(&cobra.Command{Use: "validate FILE", RunE: run})
	root.AddCommand(group, &cobra.Command{Use: "status ID", SuggestFor: []string{"show"}, RunE: run}, &cobra.Command{Use: "secret", Hidden: true, RunE: run})
	ShowFlags(group, "json")
	return root
}

func TestRoot_unknownCommands(t *testing.T) {
	t.Parallel()
	for says, line := range map[string][]string{
		"unknown command \"stauts\" for \"conclave\"; did you mean `conclave status`?\n":                      {"stauts", "x"},
		"unknown command \"show\" for \"conclave\"; did you mean `conclave status`?\n":                        {"show", "--json", "x"},
		"unknown command \"nothing\" for \"conclave\"; see `conclave --help`\n":                               {"nothing"},
		"unknown command \"secre\" for \"conclave\"; see `conclave --help`\n":                                 {"secre"},
		"unknown command \"nosuch\" for \"conclave\"; see `conclave --help`\n":                                {"help", "nosuch"},
		"unknown command \"valid\" for \"conclave pipeline\"; did you mean `conclave pipeline validate`?\n":   {"pipeline", "valid"},
		"unknown command \"validat\" for \"conclave pipeline\"; did you mean `conclave pipeline validate`?\n": {"help", "pipeline", "validat"},
	} {
		var out, errs bytes.Buffer
		c := &CLI{Stdout: &out, Stderr: &errs}
		require.Equal(t, ExitUsage, c.Execute(t.Context(), commandTree(), line), line)
		require.Equal(t, "conclave: "+says, errs.String())
		require.Empty(t, out.String())
	}
}

// The help of a command omits the common flags that have no effect on it, but the command accepts
// them.
func TestShowFlags(t *testing.T) {
	t.Parallel()
	execute := func(line ...string) string {
		var out bytes.Buffer
		c := &CLI{Stdout: &out, Stderr: &out}
		require.Equal(t, ExitOK, c.Execute(t.Context(), commandTree(), line), out.String())
		return out.String()
	}
	for _, help := range []string{execute("pipeline", "validate", "--help"), execute("help", "pipeline", "validate"), execute("pipeline", "--help")} {
		require.Contains(t, help, "--json")
		require.NotContains(t, help, "--bucket")
	}
	require.Contains(t, execute("status", "--help"), "--bucket")
	require.Empty(t, execute("pipeline", "validate", "--bucket", "b", "f"))
	require.Equal(t, "conclave version 1.2\n", execute("-v"))
}

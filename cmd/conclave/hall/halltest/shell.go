package halltest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/localstack"
)

// Shell is an empty directory that serves as home and working directory.
type Shell struct {
	T    *testing.T
	Home string

	commands func(*hall.CLI) []*cobra.Command
}

// New returns a shell with these commands. It clears the environment variables that
// conclave reads.
func New(t *testing.T, commands func(*hall.CLI) []*cobra.Command) Shell {
	t.Helper()
	if len(os.Args) > 1 && os.Args[1] == localstack.ChildCommand {
		// A command under test tried to start the embedded stack by executing its own
		// program, which here would run the tests again and again.
		fmt.Fprintln(os.Stderr, "a test binary has no embedded stack")
		os.Exit(1)
	}
	home := t.TempDir()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"TEMPORAL_", "AWS_", "OPENAI_", "XDG_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // restores the value after the test
				require.NoError(t, os.Unsetenv(name))
			}
		}
	}
	t.Setenv("HOME", home)
	t.Chdir(home)
	return Shell{T: t, Home: home, commands: commands}
}

// Run executes a command line.
func (s Shell) Run(args ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	return s.RunUntil(s.T.Context(), args...)
}

// RunUntil executes a command line and interrupts it when ctx ends.
func (s Shell) RunUntil(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	var out, errs bytes.Buffer
	c := &hall.CLI{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	root := &cobra.Command{Use: "conclave"}
	root.AddCommand(s.commands(c)...)
	code = c.Execute(ctx, root, args)
	return code, out.String(), errs.String()
}

// File writes a file into the home directory.
func (s Shell) File(name, content string) {
	s.T.Helper()
	require.NoError(s.T, os.WriteFile(filepath.Join(s.Home, name), []byte(content), 0o600))
}

// StartedNothing fails the test if a data directory was created.
func (s Shell) StartedNothing() {
	s.T.Helper()
	require.NoDirExists(s.T, filepath.Join(s.Home, ".local"))
}

// Report prints an error as the command would, and returns its exit code.
func Report(c *hall.CLI, err error) int {
	root := &cobra.Command{Use: "conclave", RunE: func(*cobra.Command, []string) error { return err }}
	return c.Execute(context.Background(), root, nil)
}

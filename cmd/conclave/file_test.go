package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"

	"github.com/stretchr/testify/require"
)

func TestInputFiles_regularAndBounded(t *testing.T) {
	s := newShell(t)
	s.File("large.yaml", strings.Repeat("#", 1<<20+1))
	require.NoError(t, syscall.Mkfifo("pipe.yaml", 0o600))
	require.NoError(t, os.Mkdir("dir.yaml", 0o700))

	for name, says := range map[string]string{
		"large.yaml": "more than 1048576 bytes",
		"pipe.yaml":  "is a pipe; name a regular file",
		"dir.yaml":   "is a directory; name a regular file",
		"/dev/zero":  "is a device; name a regular file",
		"-":          "standard input is not read",
	} {
		for _, line := range [][]string{
			{"run", "--offline", "--config", name, "q"},
			{"run", "--offline", "--eval-criteria", name, "q"},
			{"dev", "--config", name},
			{"config", "validate", name},
		} {
			code, stdout, stderr := s.Run(line...)
			require.Equal(t, cli.ExitUsage, code, "%v", line)
			require.Empty(t, stdout, "%v", line)
			require.Contains(t, stderr, says, "%v", line)
			require.NotContains(t, stderr, "config init", "%v: there is a file", line)
		}
	}
	s.StartedNothing()
}

func TestMissingConfig_namesConfigInit(t *testing.T) {
	s := newShell(t)
	code, _, stderr := s.Run("run", "--offline", "--config", "my team.yaml", "q")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "`conclave config init 'my team.yaml'`")

	code, _, stderr = s.Run("config", "validate")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "conclave config init conclave.yaml")
	s.File(teams.ProjectFile, "agents:\n  - {id: agent_a, backend: {type: openai, model: m}}\n")
	code, stdout, stderr := s.Run("config", "validate")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "conclave.yaml: OK\n", stdout)

	require.NoError(t, os.Remove(filepath.Join(s.Home, teams.ProjectFile)))
	require.NoError(t, os.Mkdir(teams.ProjectFile, 0o700))
	code, _, stderr = s.Run("run", "--offline", "q")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "conclave.yaml is a directory")
	s.StartedNothing()
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyRegularFilesOfSomeSizeAreRead(t *testing.T) {
	s := newShell(t)
	s.file("largest.yaml", strings.Repeat("#", maxInputFile))
	s.file("large.yaml", strings.Repeat("#", maxInputFile+1))
	require.NoError(t, syscall.Mkfifo("pipe.yaml", 0o600))
	require.NoError(t, os.Mkdir("dir.yaml", 0o700))

	data, err := readInput("largest.yaml")
	require.NoError(t, err)
	require.Len(t, data, maxInputFile)
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
			code, stdout, stderr := s.does(line...)
			require.Equal(t, exitUsage, code, "%v", line)
			require.Empty(t, stdout, "%v", line)
			require.Contains(t, stderr, says, "%v", line)
			require.NotContains(t, stderr, "config init", "%v: there is a file", line)
		}
	}
	s.startedNothing()
}

func TestAFileThatIsMissingCanBeStarted(t *testing.T) {
	s := newShell(t)
	code, _, stderr := s.does("run", "--offline", "--config", "my team.yaml", "q")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "`conclave config init 'my team.yaml'`")

	code, _, stderr = s.does("config", "validate")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "conclave config init conclave.yaml")
	s.file(projectFile, goodTeam)
	code, stdout, stderr := s.does("config", "validate")
	require.Equal(t, exitDone, code, stderr)
	require.Equal(t, "conclave.yaml: OK\n", stdout)

	require.NoError(t, os.Remove(filepath.Join(s.home, projectFile)))
	require.NoError(t, os.Mkdir(projectFile, 0o700))
	code, _, stderr = s.does("run", "--offline", "q")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "conclave.yaml is a directory")
	s.startedNothing()
}

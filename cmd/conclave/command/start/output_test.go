package start

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

// A file that cannot be written, or a change that nobody could approve, is refused before anything
// starts.
func TestRun_outputFile(t *testing.T) {
	s := newShell(t)
	require.NoError(t, os.Mkdir("dir", 0o755))
	for name, says := range map[string]string{
		"dir":          "--output-file: dir is not a regular file",
		"none/a.md":    "no such file or directory; name a file in a directory that can be written",
		"/proc/a/b.md": "name a file in a directory that can be written",
	} {
		code, _, stderr := s.Run("run", "--offline", "--output-file", name, "Why?")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, says)
	}
	code, _, stderr := s.Run("run", "--offline", "--apply", "Why?")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--apply applies the change of --base DIR; add --base")
	code, _, stderr = s.Run("run", "--offline", "--apply", "--base", "dir", "Why?")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "there is no terminal to ask on; add --yes")
	code, _, stderr = s.Run("run", "--offline", "--yes", "Why?")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--yes answers the question of --apply; add --apply")
	s.StartedNothing()
	require.NoError(t, checkOutput("new.md"))
	require.NoFileExists(t, "new.md")
}

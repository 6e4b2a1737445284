//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An agent that writes a hook, and a file .git with a helper, is told that they are left out. None
// of them comes out of the session, and git runs none.
func TestFilesOfGit(t *testing.T) {
	t.Parallel()
	const include, left = "!.git\n!.git/\n", "these files are left out of your answer"
	mark := filepath.Join(t.TempDir(), "ran")
	model := newModelServer(t, map[string][]reply{"model-a": {
		write(".conclaveignore", include), write(".git/hooks/pre-commit", "#!/bin/sh\ntouch "+mark+"\n"),
		write("src/.git", "gitdir: .x\n"), write("src/.x/config", "[core]\n\tfsmonitor = \"touch "+mark+"\"\n"),
		write("main.go", "package main\n"), answer("Done."), answer("Done."), vote("agent1", "Right."),
	}})
	c := newCLI(t)
	dir := filepath.Join(c.home, "project")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("Read me.\n"), 0o644))
	out := c.conclave("run", "--config", c.file("team.yaml", model.team("agent_a")), "--base", dir, "--session-id", "hooks", "Mend it.")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, model.request("model-a", 7), left)
	require.Contains(t, model.request("model-a", 7), `git's name for its own files`)
	require.NotContains(t, c.conclave("diff", "hooks").stdout, "hooks/pre-commit")

	out = c.conclave("apply", "hooks")
	require.Equal(t, 0, out.code, out.stderr)
	require.FileExists(t, filepath.Join(dir, "main.go"))
	require.NoFileExists(t, filepath.Join(dir, "src/.git"))
	require.NoFileExists(t, filepath.Join(dir, ".git/hooks/pre-commit"))
	git("add", "-A")
	git("commit", "-q", "-m", "all")
	require.NoFileExists(t, mark)

	copied := filepath.Join(c.home, "copy")
	out = c.conclave("pull", "--verify", "hooks", copied)
	require.Equal(t, 0, out.code, out.stderr)
	require.NoError(t, filepath.WalkDir(copied, func(name string, _ os.DirEntry, err error) error {
		require.NotEqual(t, ".git", filepath.Base(name))
		return err
	}))

	// A stage that came with the repository is not believed.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".conclave-apply"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".conclave-apply/journal"), []byte("x"), 0o600))
	out = c.conclave("apply", "hooks")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "this data directory knows of no apply there")
}

//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A team works on a directory and its change goes back: by diff and git, and by apply. The next
// session starts from the changed files. Nothing outside changes before apply.
func TestChangeOfABase(t *testing.T) {
	t.Parallel()
	adopt := reply{tool: "adopt_files", arguments: map[string]any{"agent_id": "agent1"}}
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			write("src/main.go", "package main // mended\n"), write("src/new.go", "package main\n"), answer("Mended."), vote("agent1", "Right."),
			write("src/more.go", "package main\n"), answer("More."), vote("agent1", "Right."),
		},
		"model-b": {answer("Nothing found."), adopt, vote("agent1", "Right."), answer("Nothing more."), vote("agent1", "Right.")},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a", "agent_b"))
	dir := filepath.Join(c.home, "project")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src"), 0o755))
	for name, content := range map[string]string{"src/main.go": "package main\n", "README.md": "Read me.\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	out := c.conclave("run", "--config", team, "--base", dir, "--session-id", "first", "Mend it.")
	require.Equal(t, 0, out.code, out.stderr)
	require.NoFileExists(t, filepath.Join(dir, "src/new.go"))
	require.Contains(t, model.request("model-b", 2), "M src/main.go", "the changed files are listed")
	require.Contains(t, model.request("model-b", 3), "your workspace has the files of agent1 now: 2 written, 0 removed")

	require.Equal(t, "src/main.go\nsrc/new.go\n", c.conclave("diff", "first", "--name-only").stdout)
	git := exec.Command("git", "apply")
	git.Dir, git.Stdin = t.TempDir(), nil
	require.NoError(t, os.CopyFS(git.Dir, os.DirFS(dir)))
	patch, err := os.Create(filepath.Join(c.home, "change.patch"))
	require.NoError(t, err)
	_, err = patch.WriteString(c.conclave("diff", "first").stdout)
	require.NoError(t, err)
	require.NoError(t, patch.Close())
	git.Args = append(git.Args, patch.Name())
	require.NoError(t, git.Run())

	out = c.conclave("apply", "first")
	require.Equal(t, 0, out.code, out.stderr)
	for _, name := range []string{"src/main.go", "src/new.go"} {
		applied, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		patched, err := os.ReadFile(filepath.Join(git.Dir, name))
		require.NoError(t, err)
		require.Equal(t, string(patched), string(applied))
	}
	require.Equal(t, "Read me.\n", c.conclave("files", "first", "README.md").stdout)

	out = c.conclave("run", "--continue", "first", "--session-id", "second", "Go on.")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "src/more.go\n", c.conclave("diff", "second", "--name-only").stdout, "the first change is in the base")
	out = c.conclave("apply", "second", "--check")
	require.Equal(t, 0, out.code, out.stderr)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "src/more.go"), []byte("mine\n"), 0o644))
	out = c.conclave("apply", "second")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "src/more.go")
}

//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// A session starts from a directory: its steps work on it, its bucket has no copy of a
// workspace, a pulled copy has whole trees, and the change goes back into the directory.
func TestBase(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {read("main.go"), write("new.go", "package main // new\n"), answer("Done."), vote("agent1", "Mine.")},
	})
	c := newCLI(t)
	project := filepath.Join(c.home, "project")
	require.NoError(t, os.Mkdir(project, 0o700))
	for name, content := range map[string]string{"main.go": "package main\n", ".env": "SECRET=hunter2-hunter2", "a.log": "x", ".gitignore": "*.log\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(project, name), []byte(content), 0o600))
	}
	team := c.file("team.yaml", model.teamWith(nil, "agent_a"))
	uploaded := c.conclave("upload", project)
	require.Equal(t, 0, uploaded.code, uploaded.stderr)
	require.Regexp(t, `^sha256:[0-9a-f]{64}\n$`, uploaded.stdout)
	require.Contains(t, uploaded.stderr, "left out because of secrets: .env")

	out := c.conclave("run", "--automation", "--config", team, "--session-id", "based", "--base", project, "--context", project+"=handbook", "Add a file")
	require.Equal(t, 0, out.code, out.stderr)
	out.result(t, "consensus")
	require.NotContains(t, model.prompts(), "hunter2")

	patch := c.file("change.patch", c.conclave("diff", "based").stdout)
	git := exec.Command("git", "apply", patch)
	git.Dir = project
	output, err := git.CombinedOutput()
	require.NoError(t, err, string(output))
	require.FileExists(t, filepath.Join(project, "new.go"))
	require.Contains(t, c.conclave("apply", "based").stdout, "already has the change")

	dir := filepath.Join(c.home, "pulled")
	out = c.conclave("pull", "--verify", "based", dir)
	require.Equal(t, 0, out.code, out.stderr)
	for _, file := range []string{"main.go", "new.go", ".gitignore"} {
		require.FileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace", file))
	}
	require.FileExists(t, filepath.Join(dir, "final/agent_a/workspace/new.go"))
	require.FileExists(t, filepath.Join(dir, "final/agent_a/change.patch"))
	require.NoFileExists(t, filepath.Join(dir, "final/agent_a/workspace/main.go"))
	var session artifact.Session
	readFile(t, filepath.Join(dir, "session.json"), &session)
	require.Equal(t, uploaded.stdout, session.Base+"\n")

	out = c.conclave("run", "--automation", "--config", team, "--base", filepath.Join(c.home, "missing"), "Why?")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "name a directory")
}

//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// The built-in team runs commands on a base where the host confines them. Elsewhere everybody who reads the
// answer learns that nothing was run.
func TestBase_builtinTeamRunsCommands(t *testing.T) {
	t.Parallel()
	command := func(line string) reply {
		return reply{tool: "run_command", arguments: map[string]any{"command": line}}
	}
	decide := []reply{answer("One."), answer("Two."), answer("Three."), vote("agent1", "Good."), vote("agent1", "Good."), vote("agent1", "Good.")}
	ran := newModelServer(t, map[string][]reply{"gpt-5.2": append([]reply{command("echo $((6*7)) lines"), command("true"), command("true")}, decide...)})
	silent := newModelServer(t, map[string][]reply{"gpt-5.2": decide})
	c, other := newCLI(t, "OPENAI_BASE_URL="+ran.URL+"/v1"), newCLI(t, "OPENAI_BASE_URL="+silent.URL+"/v1")
	for _, c := range []*e2eCLI{c, other} {
		require.NoError(t, os.Mkdir(filepath.Join(c.home, "project"), 0o700))
		c.file("project/main.go", "package main\n")
	}
	off := other.file("worker.yaml", "sandbox: {level: off}\n")
	out := other.conclave("run", "--automation", "--worker-config", off, "--session-id", "none", "--base", "project", "Mend it.")
	require.Equal(t, 0, out.code, out.stderr)
	const reason = "sandbox.level is off, and commands run on their own only where they are confined"
	require.Contains(t, out.stderr, "agents cannot run commands, so nothing will be run: "+reason+"\n")
	require.Equal(t, reason, out.result(t, "consensus").NoShell)
	require.NotContains(t, silent.prompts(), "run_command")
	require.Contains(t, other.conclave("result", "none").stderr, "nothing was run, no test and no program: agents could not run commands: "+reason)
	require.Equal(t, 0, other.conclave("pull", "none", filepath.Join(other.home, "pulled")).code)
	for _, name := range []string{"ANSWER.md", "index.html"} {
		content, err := os.ReadFile(filepath.Join(other.home, "pulled", name))
		require.NoError(t, err)
		require.Contains(t, string(content), "Nothing was run, no test and no program: the agents could not run commands: "+reason)
	}
	out = other.conclave("run", "--worker-config", off, "--shell", "--no-shell", "Mend it.")
	require.Equal(t, 1, out.code)

	out = c.conclave("run", "--automation", "--session-id", "ran", "--base", "project", "Mend it.")
	if strings.Contains(out.stderr, "agents cannot run commands") {
		t.Skip(out.stderr)
	}
	require.Equal(t, 0, out.code, out.stderr)
	require.Empty(t, out.result(t, "consensus").NoShell)
	require.Contains(t, ran.prompts(), "42 lines")
}

// What an agent, and a command of a check, write to the cache of a build tool stays there for the agent's next step,
// and reaches no other agent and no check.
func TestBase_cachesOfBuildTools(t *testing.T) {
	t.Parallel()
	look := reply{tool: "run_command", arguments: map[string]any{"command": "test -d $npm_config_cache && cat $npm_config_cache/plant || echo no plant"}}
	plants := reply{tool: "run_command", arguments: map[string]any{"command": "echo from $((6*7)) > $npm_config_cache/plant"}}
	model := newModelServer(t, map[string][]reply{
		"model-a": {plants, answer("One."), look, vote("agent1", "Good.")},
		"model-b": {look, answer("Two."), look, vote("agent1", "Good.")},
	})
	c := newCLI(t)
	for _, dir := range []string{"project", "hidden", "tools"} {
		require.NoError(t, os.Mkdir(filepath.Join(c.home, dir), 0o755))
	}
	c.file("project/package.json", "{}\n")
	npm := c.file("tools/npm", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(npm, 0o755))
	c.file("hidden/checks.yaml", `- {name: before, command: test -d $npm_config_cache -a ! -e $npm_config_cache/plant}
- {name: plants, command: echo plant > $npm_config_cache/plant}
- {name: after, command: test -d $npm_config_cache -a ! -e $npm_config_cache/plant}
`)
	team := strings.ReplaceAll(model.teamWith(orchestrator(map[string]any{"ballot": "checks_decide", "disable_injection": true}), pair...), `"backend":`, `"tools": {"shell": "auto"}, "backend":`)
	worker := c.file("worker.yaml", "sandbox: {toolchains: ["+filepath.Dir(npm)+"]}\n")
	out := c.conclave("run", "--automation", "--config", c.file("team.yaml", team), "--worker-config", worker, "--base", "project", "--checks", "hidden", "Mend it.")
	if strings.Contains(out.stderr, "agents cannot run commands") {
		t.Skip(out.stderr)
	}
	require.Equal(t, 0, out.code, out.stderr)
	result := out.result(t, "consensus")
	require.InDelta(t, 1, *result.Support.Checks, 1e-9, out.stderr)
	require.Contains(t, model.request("model-a", 4), "from 42", "its own next step")
	require.Contains(t, model.request("model-b", 4), "no plant")
	require.NotContains(t, model.request("model-b", 2)+model.request("model-b", 4), "from 42")
}

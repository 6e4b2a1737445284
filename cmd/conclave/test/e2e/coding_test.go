//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// codingProgram is a coding program of another author, with a team as its model.
type codingProgram struct {
	path, config     string // the program below node_modules; a file that it reads, with its content's address to fill in
	env, ask, resume []string
}

// codingPrograms are run as docs/calling.md says.
func codingPrograms(base string) map[string]codingProgram {
	claude := []string{"-p", "--model", "conclave", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"}
	codex := []string{"exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access"}
	return map[string]codingProgram{
		"Claude": {
			path: "@anthropic-ai/claude-code-linux-x64/claude", ask: append(claude, "--"), resume: append(claude, "--continue", "--"),
			env: []string{"IS_SANDBOX=1", "ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=any", "ANTHROPIC_SMALL_FAST_MODEL=conclave/single", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
		},
		"Codex": {
			path: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", ask: codex, resume: append(codex, "resume", "--last"), env: []string{"CONCLAVE_KEY=any"},
			config: `model = "conclave"
model_provider = "conclave"
[model_providers.conclave]
name = "conclave"
base_url = "` + base + `/v1"
env_key = "CONCLAVE_KEY"
wire_api = "responses"
`,
		},
	}
}

// Claude Code and Codex do a task in a directory with a team as their model. Killed while the team
// has the result of their command, they go on by their own means, and the command is not run twice:
// Codex with the same session; Claude Code, which notes that it was interrupted, with a new one that
// has the whole history.
func TestCodingPrograms(t *testing.T) {
	t.Parallel()
	installed := os.Getenv("CONCLAVE_PROGRAMS")
	if _, err := os.Stat(filepath.Join(installed, "node_modules", "@openai", "codex")); installed == "" || err != nil {
		t.Skip("CONCLAVE_PROGRAMS does not name a directory with the packages of .ci/programs")
	}
	model := newThinking(t)
	c := newCLI(t)
	s := c.serve("--config", c.file("team.json", model.team("agent_a")))
	t.Run("group", func(t *testing.T) { // ends before the server does
		for name, program := range codingPrograms(s.base) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := newCLI(t, program.env...)
				require.NoError(t, os.Mkdir(filepath.Join(own.home, ".codex"), 0o700))
				own.file(".codex/config.toml", program.config)
				path := filepath.Join(installed, "node_modules", program.path)
				killed := own.startProgram(path, append(program.ask, "Write hello.txt. Hold the result of "+name+".")...)
				<-signal(&model.asked, name)
				require.NoError(t, killed.Process.Kill())
				<-killed.done
				written, err := os.ReadFile(filepath.Join(own.home, "hello.txt"))
				require.NoError(t, err)
				require.Equal(t, "by a team\n", string(written))
				require.NoError(t, os.Remove(filepath.Join(own.home, "hello.txt")))
				close(signal(&model.broken, name))
				out := own.run(path, append(program.resume, "Go on.")...)
				require.Zero(t, out.code)
				require.Contains(t, out.stdout, "The answer is 42.")
				require.NoFileExists(t, filepath.Join(own.home, "hello.txt"), "the command is not run again")
			})
		}
	})
	var sessions []struct{ Query, Status string }
	require.NoError(t, json.Unmarshal([]byte(c.conclave("list", "--json").stdout), &sessions))
	require.Len(t, sessions, 3, "%v", sessions)
	for _, one := range sessions {
		require.Equal(t, "consensus", one.Status)
	}
}

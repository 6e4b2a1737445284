package teams

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

const goodTeam = `
agents:
  - id: agent_a
    backend: {type: openai, model: m}
`

func TestInit_writesValidFile(t *testing.T) {
	s := newShell(t)
	code, stdout, stderr := s.Run("config", "init")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "conclave.yaml written")
	code, stdout, stderr = s.Run("config", "validate", "conclave.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "conclave.yaml: OK\n", stdout)
}

func TestInit_keepsExistingFile(t *testing.T) {
	s := newShell(t)
	s.File("mine.yaml", "precious")
	code, stdout, stderr := s.Run("config", "init", "mine.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "mine.yaml: it exists already")
	content, err := os.ReadFile("mine.yaml")
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestValidate_allFiles(t *testing.T) {
	s := newShell(t)
	s.File("good.yaml", goodTeam)
	s.File("bad.yaml", "agents: []\n")
	code, stdout, stderr := s.Run("config", "validate", "bad.yaml", "good.yaml", "gone.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, "good.yaml: OK\n", stdout)
	require.Contains(t, stderr, "bad.yaml:1")
	require.Contains(t, stderr, "gone.yaml")

	code, stdout, stderr = s.Run("config", "validate", "--json", "bad.yaml", "good.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stderr)
	var verdicts []Checked
	require.NoError(t, json.Unmarshal([]byte(stdout), &verdicts))
	require.Len(t, verdicts, 2)
	require.False(t, verdicts[0].Valid)
	require.Equal(t, 1, verdicts[0].Problems[0].Line)
	require.NotEmpty(t, verdicts[0].Problems[0].Message)
	require.Equal(t, Checked{File: "good.yaml", Valid: true, Problems: []Problem{}}, verdicts[1])
}

func TestValidate_notesIdleKeys(t *testing.T) {
	s := newShell(t)
	s.File("idle.yaml", goodTeam+"orchestrator: {coordination: {round_evaluator_transformation_pressure: gentle}}\n")
	code, stdout, stderr := s.Run("config", "validate", "idle.yaml")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "idle.yaml: OK\n", stdout)
	require.Contains(t, stderr, "round_evaluator_transformation_pressure, which has no effect without")
}

// --config names a file to check, too, in place of the one of the working directory.
func TestValidate_config(t *testing.T) {
	s := newShell(t)
	s.File("conclave.yaml", goodTeam)
	s.File("bad.yaml", "agents: []\n")
	code, stdout, stderr := s.Run("config", "validate", "--config", "bad.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "bad.yaml:1")
	code, stdout, _ = s.Run("config", "validate", "--config", "bad.yaml", "conclave.yaml", "bad.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, "conclave.yaml: OK\n", stdout)
}

func TestSchema_isJSON(t *testing.T) {
	s := newShell(t)
	code, stdout, _ := s.Run("config", "schema", "--pipeline")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, `"title": "Conclave pipeline"`)
	code, stdout, _ = s.Run("config", "schema")
	require.Equal(t, cli.ExitOK, code)
	require.True(t, json.Valid([]byte(stdout)))
	require.Contains(t, stdout, "agents")
}

func TestValidate_workerFile(t *testing.T) {
	s := newShell(t)
	s.File("worker.yaml", "providers:\n  house: {base_url: \"http://127.0.0.1:1/v1\", api_key_env: HOUSE_KEY}\nmax_concurrent_steps: 8\n")
	s.File("bad.yaml", "providers:\n  house: {base_url: nowhere}\nmax_concurrent_step: 8\n")
	s.File("graph.yaml", "start: a\nsteps: [{id: a, offline: true}]\n")
	code, stdout, stderr := s.Run("config", "validate", "worker.yaml", "bad.yaml", "graph.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, "worker.yaml: OK\n", stdout)
	require.Contains(t, stderr, "graph.yaml is a pipeline: check it with `conclave pipeline validate graph.yaml`\n")
	require.Contains(t, stderr, "bad.yaml:2:21: providers.house.base_url: not an http or https URL")
	require.Contains(t, stderr, "did you mean max_concurrent_steps?")
}

// validate accepts a team that names a worker's providers and servers, and notes their
// names.
func TestValidate_notesNames(t *testing.T) {
	s := newShell(t)
	s.File("named.yaml", `agents:
  - {id: a, backend: {model: m}, mcp_servers: [browser, {name: own, url: "http://h/mcp"}]}
  - {id: b, backend: {provider: house, model: m}, mcp_servers: [browser]}
`)
	code, stdout, stderr := s.Run("config", "validate", "named.yaml")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "named.yaml: OK\n", stdout)
	require.Equal(t, "note: named.yaml names the MCP server browser, the provider house, which the file of --worker-config has to define\n", stderr)
}

// What a file starts is shown with absolute paths, and a found file that commands refuse is named.
func TestValidate_showsProgramsAndTrust(t *testing.T) {
	s := newShell(t)
	const team = "agents: [{id: agent_a, backend: {type: openai, model: m, api_key_env: GITHUB_TOKEN}, mcp_servers: [{name: x, command: ./run, args: [server.py]}]}]\n"
	s.File("server.py", "")
	s.File(ProjectFile, team)
	s.File("named.yaml", team)
	s.File("worker.yaml", "mcp_servers: {house: {command: ./serve}}\n")
	runs := "run, outside the sandbox, `" + s.Home + "/run " + s.Home + "/server.py` as the MCP server x (agent_a)"
	code, stdout, stderr := s.Run("config", "validate", "named.yaml", "worker.yaml")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "named.yaml: OK\nworker.yaml: OK\n", stdout)
	require.Equal(t, "note: named.yaml would "+runs+"\nnote: worker.yaml would run, outside the sandbox, `"+s.Home+"/serve` as the MCP server house (agents that name it)\n", stderr)

	refused := "note: commands refuse it where they find it: conclave.yaml was found, not named with --config, and is not trusted; it would\n  send the key in GITHUB_TOKEN to https://api.openai.com/v1 (agent_a)\n  " + runs + "\n`conclave config trust conclave.yaml` trusts it until it changes\n"
	for _, line := range [][]string{{"config", "validate"}, {"config", "validate", "./conclave.yaml"}} {
		code, stdout, stderr = s.Run(line...)
		require.Equal(t, cli.ExitOK, code)
		require.Contains(t, stdout, "conclave.yaml: OK\n")
		require.Contains(t, strings.ReplaceAll(stderr, "./conclave.yaml", "conclave.yaml"), refused)
	}
	for _, untrusted := range []bool{true, false} {
		var verdicts []Checked
		_, stdout, _ = s.Run("config", "validate", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &verdicts))
		require.Equal(t, []Checked{{File: ProjectFile, Valid: true, Problems: []Problem{}, Programs: []string{runs}, Untrusted: untrusted}}, verdicts)
		s.Run("config", "trust", ProjectFile)
	}
	_, _, stderr = s.Run("config", "validate")
	require.NotContains(t, stderr, "refuse")
	s.File("server.py", "# changed")
	_, _, stderr = s.Run("config", "validate", "--config", ProjectFile)
	require.NotContains(t, stderr, "refuse", "it is named")
}

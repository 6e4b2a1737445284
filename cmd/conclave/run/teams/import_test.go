package teams

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
)

const foreign = `agents:
  - {id: GPT-5, backend: {type: openai, model: gpt-5, temperature: 0.7, cwd: w}}
  - {id: sonnet, backend: {type: claude, model: claude-sonnet-4-5}}
ui: {display_type: simple}
`

func TestImport_writesTheTeamAndTheNotes(t *testing.T) {
	s := newShell(t)
	s.File("massgen.yaml", foreign)
	code, stdout, stderr := s.Run("config", "import", "massgen.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, `# Translated from "massgen.yaml", a configuration of MassGen.
agents:
  - id: gpt-5
    backend:
      type: openai
      model: gpt-5
      params:
        temperature: 0.7
  - id: sonnet
    backend:
      type: anthropic
      model: claude-sonnet-4-5
`, stdout)
	require.Contains(t, stderr, `massgen.yaml:2: agents[0].id: "GPT-5" is now gpt-5`)
	require.Contains(t, stderr, "massgen.yaml:4: ui (with display_type): ")

	s.File("team.yaml", stdout)
	code, stdout, stderr = s.Run("config", "validate", "team.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "team.yaml: OK\n", stdout)
}

func TestImport_asJSON(t *testing.T) {
	s := newShell(t)
	s.File("massgen.yaml", foreign)
	code, stdout, stderr := s.Run("config", "import", "--json", "massgen.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Empty(t, stderr)
	var got imported
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, "massgen.yaml", got.File)
	require.Equal(t, []string{"agents[0].id"}, got.Notes[0].Keys)
	require.Equal(t, 2, got.Notes[0].Line)
	team, err := json.Marshal(got.Team)
	require.NoError(t, err)
	s.File("team.json", string(team))
	code, _, stderr = s.Run("config", "validate", "team.json")
	require.Equal(t, cli.ExitOK, code, stderr)

	s.File("plain.yaml", "agents: [{id: a, backend: {type: openai, model: m}}]\n")
	_, stdout, _ = s.Run("config", "import", "--json", "plain.yaml")
	require.Regexp(t, `"notes": ?\[\]`, stdout)
}

func TestImport_failures(t *testing.T) {
	s := newShell(t)
	s.File("limits.yaml", "gemini: {default: {rpm: 7}}")
	s.File("divided.yaml", "agents: [{id: a, subtask: All of it., backend: {type: openai, model: m}}, {id: b, backend: {type: openai, model: m}}]\norchestrator: {coordination_mode: decomposition}\n")
	code, stdout, stderr := s.Run("config", "import", "limits.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "translate limits.yaml: no agents: ")
	code, _, stderr = s.Run("config", "import", "gone.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "gone.yaml")

	code, stdout, stderr = s.Run("config", "import", "divided.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stdout, "coordination_mode: decomposition")
	require.Contains(t, stderr, "the translation of divided.yaml was printed and still needs changes:")
	require.Contains(t, stderr, "agents[1].subtask: missing")
}

func TestValidate_hintsAtImport(t *testing.T) {
	s := newShell(t)
	s.File("massgen.yaml", foreign)
	s.File("own.yaml", "agents: [{id: agent_a, backend: {type: openai, mdoel: m}}]\n")
	code, _, stderr := s.Run("config", "validate", "massgen.yaml", "own.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "temperature: unknown key; parameters of the API are under params: {temperature: …}")
	require.Contains(t, stderr, `unknown value "claude"; it is anthropic here`)
	require.Contains(t, stderr, "massgen.yaml looks like a configuration of MassGen; `conclave config import massgen.yaml > conclave.yaml` translates it")
	require.NotContains(t, stderr, "own.yaml looks")

	s.File("conclave.yaml", foreign)
	_, _, stderr = s.Run("config", "validate", "conclave.yaml")
	require.Contains(t, stderr, "`conclave config import conclave.yaml > team.yaml` translates it", "the shell would empty conclave.yaml first")

	code, stdout, _ := s.Run("config", "validate", "--json", "massgen.yaml")
	require.Equal(t, cli.ExitUsage, code)
	var verdicts []Checked
	require.NoError(t, json.Unmarshal([]byte(stdout), &verdicts))
	require.Len(t, verdicts[0].Problems, 5)
}

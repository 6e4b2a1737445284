package massgen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// IDs are made valid and remain unique; a note names each change.
func TestID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40)
	got, err := Import("team", []byte(`agents:
  - {id: fine, backend: {type: openai, model: m}}
  - {id: Fine, backend: {type: openai, model: m}}
  - {id: "7 up", backend: {type: openai, model: m}}
  - {id: `+long+`, backend: {type: openai, model: m}}
  - {id: `+long+`y, backend: {type: openai, model: m}}
  - {backend: {type: openai, model: m}}
orchestrator: {presenter_agent: 7 up}
`))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	team, err := config.Parse("team", got.YAML, config.Local)
	require.NoError(t, err)
	var ids []string
	for _, a := range team.Agents {
		ids = append(ids, a.ID)
	}
	require.Equal(t, []string{"fine", "fine_2", "agent_7_up", long[:32], long[:30] + "_2", "agent_f"}, ids)
	require.Equal(t, "agent_7_up", *team.Orchestrator.PresenterAgent)
	notes := notesOf(got)
	require.NotContains(t, notes, "id", "a legal ID is unchanged")
	require.Contains(t, notes["agents[1].id"], `"Fine" is now fine_2`)
	require.Equal(t, "missing; the agent is called agent_f", notes["agents[5].id"])
	require.Equal(t, "now agent_7_up, as the agent", notes["orchestrator.presenter_agent"])
}

// A valid ID is kept for the agent that has it in the document, whatever the order of agents.
func TestID_legalOnesStay(t *testing.T) {
	t.Parallel()
	got, err := Import("team", []byte(`agents:
  - {id: A.b, backend: {type: openai, model: m}}
  - {id: a_b, backend: {type: openai, model: m}}
  - {id: c, backend: {type: openai, model: m}}
  - {id: c, backend: {type: openai, model: m}}
  - {id: c, backend: {type: openai, model: m}}
orchestrator: {presenter_agent: c}
`))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	team, err := config.Parse("team", got.YAML, config.Local)
	require.NoError(t, err)
	var ids []string
	for _, a := range team.Agents {
		ids = append(ids, a.ID)
	}
	require.Equal(t, []string{"a_b_2", "a_b", "c", "c_2", "c_3"}, ids)
	require.Equal(t, "c", *team.Orchestrator.PresenterAgent)
	notes := notesOf(got)
	require.Contains(t, notes["id"], `"A.b" is now a_b_2: an ID is`)
	require.NotContains(t, notes, "agents[1].id")
	require.Equal(t, `"c" is now c_2: another agent has the same ID`, notes["agents[3].id"])
}

// A command-line agent has the shell and the file tools that its lists permit.
func TestEquip(t *testing.T) {
	t.Parallel()
	for lists, want := range map[string]struct{ files, shell bool }{
		"max_thinking_tokens: 1":                               {true, true},
		"allowed_tools: []":                                    {true, true},
		"allowed_tools: [Read, Write]":                         {true, false},
		"allowed_tools: [Read, 'Bash(git log:*)']":             {true, true},
		"allowed_tools: [Bash]":                                {true, true},
		"allowed_tools: [WebSearch]":                           {false, false},
		"disallowed_tools: [Bash]":                             {true, false},
		"disallowed_tools: ['Bash(rm:*)']":                     {true, false},
		"allowed_tools: [Read], disallowed_tools: []":          {true, false},
		"allowed_tools: [Read], enable_mcp_command_line: true": {true, true},
	} {
		a, _ := translated(t, "type: claude_code, model: m, "+lists)
		require.Equal(t, want.files, a.Tools.Files, lists)
		require.Equal(t, want.shell, a.Tools.Shell.On(), lists)
	}
	a, _ := translated(t, "type: openai, model: m, allowed_tools: [Read]")
	require.False(t, a.Tools.Shell.On())
	require.True(t, a.Tools.Files)
}

// Instructions from several places are combined into one system message.
func TestInstruct(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		"system_message: One., backend: {type: openai, model: m}":                                                "One.",
		"append_system_prompt: Two., backend: {type: openai, model: m}":                                          "Two.",
		"append_system_prompt: Two., system_message: One., backend: {type: openai, model: m, system_prompt: 3.}": "One.\n\nTwo.\n\n3.",
	} {
		got, err := Import("team", []byte("agent: {id: a, "+document+"}"))
		require.NoError(t, err)
		team, err := config.Parse("team", got.YAML, config.Local)
		require.NoError(t, err)
		require.Equal(t, want, team.Agents[0].SystemMessage, document)
	}
}

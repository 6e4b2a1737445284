package massgen

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys that MassGen itself never sends to a service do not become parameters, whatever they are:
// they are carried over, or named with what their absence means.
func TestParam_neverGuessed(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/never_sent.txt")
	require.NoError(t, err)
	for key := range strings.FieldsSeq(string(list)) {
		if key == "mcp_servers" || key == "type" {
			continue
		}
		a, notes := translated(t, "type: openai, model: m, "+key+": {planted: [true]}")
		require.Empty(t, a.Backend.Params, key)
		require.NotEmpty(t, notes[key], key)
	}
}

// Rules that nobody enforces are called so, and what they would have guarded stays off.
func TestPermissions(t *testing.T) {
	t.Parallel()
	a, notes := translated(t, "type: openai, model: m, enable_mcp_command_line: true, permissions: {enabled: true, rules: {deny: ['command(git push*)']}}")
	require.False(t, a.Tools.Shell.On())
	require.Contains(t, notes["permissions"], "NOT enforced")
	require.Contains(t, notes["enable_mcp_command_line"], "not moved to the agent's tools.shell")
	a, _ = translated(t, "type: openai, model: m, enable_mcp_command_line: true, permissions: {enabled: false}")
	require.True(t, a.Tools.Shell.On())
}

// A subtask belongs to the agent, and an evaluator before the checklist needs its manager.
func TestMovedKeys(t *testing.T) {
	t.Parallel()
	got, err := Import("team", []byte("agents: [{id: a, backend: {type: openai, model: m, subtask: the schema}}]\norchestrator: {coordination_mode: decomposition}\n"))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	require.Contains(t, string(got.YAML), "subtask: the schema")
	require.Contains(t, notesOf(got)["subtask"], "moved to the agent's subtask")
	got, err = Import("team", []byte("agents: [{id: a, backend: {type: openai, model: m}}]\norchestrator: {voting_sensitivity: checklist_gated, coordination: {round_evaluator_before_checklist: true}}\n"))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	require.Contains(t, string(got.YAML), "orchestrator_managed_round_evaluator: true")
	require.Contains(t, string(got.YAML), "round_evaluator_before_checklist: true")
}

package massgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every key in the tables is omitted from the team and named with the reason. If the key is off,
// the note says that nothing is missing.
func TestDropped(t *testing.T) {
	t.Parallel()
	const agent = "{id: a, %sbackend: {type: openai, model: m%s}}"
	for name, section := range map[string]struct {
		keys     map[string]string
		document func(key string) string
		path     string
	}{
		"top level": {topLevel, func(key string) string { return fmt.Sprintf("agents: ["+agent+"]\n%s\n", "", "", key) }, ""},
		"agent":     {agentKeys, func(key string) string { return fmt.Sprintf("agents: ["+agent+"]", key+", ", "") }, "agents[0]."},
		"backend":   {backendKeys, func(key string) string { return fmt.Sprintf("agents: ["+agent+"]", "", ", "+key) }, "agents[0].backend."},
		"orchestrator": {orchestratorKeys, func(key string) string {
			return fmt.Sprintf("agents: ["+agent+"]\norchestrator: {%s}", "", "", key)
		}, "orchestrator."},
		"coordination": {coordinationKeys, func(key string) string {
			return fmt.Sprintf("agents: ["+agent+"]\norchestrator: {coordination: {%s}}", "", "", key)
		}, "orchestrator.coordination."},
	} {
		for key, reason := range section.keys {
			if translatedElsewhere[key] {
				continue
			}
			for value, want := range map[string]string{"planted": reason, "false": "switched off in MassGen, and not needed here"} {
				got, err := Import("team", []byte(section.document(key+": "+value)))
				require.NoError(t, err)
				require.NoError(t, got.Invalid, "%s: %s", name, key)
				require.NotContains(t, string(got.YAML), "planted", "%s: %s", name, key)
				require.Len(t, got.Notes, 1, "%s: %s", name, key)
				require.Equal(t, []string{section.path + key}, got.Notes[0].Keys)
				require.Equal(t, want, got.Notes[0].Message, "%s: %s", name, key)
			}
			require.False(t, strings.HasSuffix(reason, "."), "%s: the note ends without a full stop", reason)
		}
	}
}

// translatedElsewhere lists keys in the tables that are translated together with other values.
var translatedElsewhere = map[string]bool{
	"mcp_servers": true, "agent_config": true, "group_config": true, "enable_mcp_command_line": true, "allowed_tools": true, "exclude_tools": true,
}

// A key that is in no table is copied, refused by conclave's parser, and therefore omitted.
func TestDropped_unknownKeys(t *testing.T) {
	t.Parallel()
	got, err := Import("team", []byte("agents: [{id: a, brand_new: 1, backend: {type: openai, model: m}}]\nbrand_new: 1\norchestrator: {brand_new: 1}\n"))
	require.NoError(t, err)
	require.NoError(t, got.Invalid)
	require.NotContains(t, string(got.YAML), "brand_new")
	for key, message := range notesOf(got) {
		require.Equal(t, noCounterpart, message, key)
	}
	require.NotEmpty(t, got.Notes)
}

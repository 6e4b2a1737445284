package massgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every key that the table leaves out is missing in the team and named with the reason. If the key
// is off, the note says that nothing is missing.
func TestTable_leavesOut(t *testing.T) {
	t.Parallel()
	const agent = "agents: [{id: a, %sbackend: {type: openai, model: m%s}}]\n"
	sections := map[string]struct {
		document func(key string) string
		path     string
	}{
		"team":    {func(key string) string { return fmt.Sprintf(agent+"%s\n", "", "", key) }, ""},
		"agent":   {func(key string) string { return fmt.Sprintf(agent, key+", ", "") }, "agents[0]."},
		"backend": {func(key string) string { return fmt.Sprintf(agent, "", ", "+key) }, "agents[0].backend."},
		"server": {func(key string) string {
			return fmt.Sprintf(agent, "", ", mcp_servers: [{name: s, command: c, "+key+"}]")
		}, "agents[0].backend.mcp_servers[0]."},
		"orchestrator": {func(key string) string { return fmt.Sprintf(agent+"orchestrator: {%s}", "", "", key) }, "orchestrator."},
		"coordination": {func(key string) string { return fmt.Sprintf(agent+"orchestrator: {coordination: {%s}}", "", "", key) }, "orchestrator.coordination."},
	}
	for _, row := range table {
		require.False(t, strings.HasSuffix(row.rule.reason, "."), "%s: the note ends without a full stop", row.rule.reason)
		for _, name := range strings.Fields(row.sections) {
			section, known := sections[name]
			if r := row.rule; r.do != nil || r.inside != "" || r.to != "" || !known {
				continue
			}
			for _, key := range strings.Fields(row.keys) {
				for value, want := range map[string]string{"planted": row.rule.reason, "false": "switched off in MassGen, and not needed here"} {
					got, err := Import("team", []byte(section.document(key+": "+value)))
					require.NoError(t, err)
					require.NoError(t, got.Invalid, "%s: %s", name, key)
					require.NotContains(t, string(got.YAML), "planted", "%s: %s", name, key)
					require.Len(t, got.Notes, 1, "%s: %s", name, key)
					require.Equal(t, []string{section.path + key}, got.Notes[0].Keys)
					require.Equal(t, want, got.Notes[0].Message, "%s: %s", name, key)
				}
			}
		}
	}
}

// A key has one rule in its section.
func TestTable_hasOneRuleForAKey(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range table {
		for _, section := range strings.Fields(row.sections) {
			for _, key := range strings.Fields(row.keys) {
				require.False(t, seen[section+"."+key], "%s in %s", key, section)
				seen[section+"."+key] = true
			}
		}
	}
}

// A key that is in no table is copied, refused by conclave's parser, and therefore omitted.
func TestTable_unknownKeys(t *testing.T) {
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

package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
)

// Every file tool can be called again on a restored workspace, and so can a
// command, which reaches nothing else; of other tools nobody knows.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	files, err := tools.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	require.Len(t, files.Tools(), 6)
	for _, tool := range files.Tools() {
		require.True(t, tools.Repeatable(tool.Name), tool.Name)
	}
	require.True(t, tools.Repeatable("run_command"))
	for _, name := range []string{"", "send_mail", "mcp__mail__send", "mcp__files__read_file", "Read_File", "vote"} {
		require.False(t, tools.Repeatable(name), name)
	}
}

package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
)

// Every file tool can be called again on a restored workspace; of what is no file
// tool nobody knows.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	files, err := tools.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	require.Len(t, files.Tools(), 6)
	for _, tool := range files.Tools() {
		require.True(t, tools.Repeatable(tool.Name), tool.Name)
	}
	for _, name := range []string{"", "send_mail", "Read_File", "vote"} {
		require.False(t, tools.Repeatable(name), name)
	}
}

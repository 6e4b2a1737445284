package transcript

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

func TestAgentIDs_andStepNumbers(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InBucket("s1")
	for _, name := range []string{
		"a/001/step.json", "a/001/workspace/002/x", "a/002/step.json", "a/999/step.json", "a/1000/step.json", "a/last_action.json",
		"a/0003/x", "a/0/x", "a/notes/x", "a-b/001/step.json",
	} {
		require.NoError(t, store.Put(t.Context(), layout.File("agents/"+name), strings.NewReader("{}")))
	}
	agents, err := agentIDs(t.Context(), store, layout)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a-b"}, agents)

	steps, err := stepNumbers(t.Context(), store, layout, "a")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 999, 1000}, steps)

	steps, err = stepNumbers(t.Context(), store, layout, "nobody")
	require.NoError(t, err)
	require.Empty(t, steps)
}

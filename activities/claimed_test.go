package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/files/artifact"
)

// A workflow is found by its ID, whatever characters it has; the newest record counts.
func TestClaimedBy(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	const workflow = "shop/../buy \x00"
	found, err := activities.ClaimedBy(t.Context(), store, workflow)
	require.NoError(t, err)
	require.Equal(t, activities.Claimed{WorkflowID: workflow, ID: workflow}, found, "without a record the IDs are the same")
	for _, run := range []string{"r1", "r2"} {
		kept := activities.Claimed{WorkflowID: workflow, ID: run, Scenario: "buy"}
		require.NoError(t, kept.Keep(t.Context(), store))
		found, err = activities.ClaimedBy(t.Context(), store, workflow)
		require.NoError(t, err)
		require.Equal(t, kept, found)
	}
}

package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// A scenario's run is copied with its evidence, and named by its run ID if only one scenario has it.
func TestCopyRun_scenario(t *testing.T) {
	t.Parallel()
	root, layout := stage.Scenario(t)
	store, err := artifact.NewDir(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("claims/001.json"), artifact.Owner{WorkflowID: "scenario-sign-in-r1"}))
	for name, doc := range map[string]any{
		"step.json": artifact.Claim{Token: "l1"}, "action.json": artifact.Commit{Token: "l1", Kind: "reported"}, "last_action.json": artifact.LastAction{Action: "pass"},
	} {
		require.NoError(t, artifact.PutJSON(t.Context(), store, layout.ScenarioStep("01", 1, name), doc))
	}
	dir := t.TempDir()
	for _, id := range []string{"sign-in/r1", "r1"} {
		copied, err := copyRun(t.Context(), store, id, dir, true, func(int, int) {})
		require.NoError(t, err)
		require.Equal(t, "sign-in/r1", copied.SessionID)
		require.Equal(t, "fail", copied.Status)
		require.Equal(t, &verification{Steps: 1, Problems: []problem{}}, copied.Verified)
	}
	require.FileExists(t, filepath.Join(dir, "step-02/evidence/trace.zip"))
	require.NoDirExists(t, filepath.Join(dir, "claims"))
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "A customer signs in")

	other := stage.SignIn()
	other.Scenario = "sign-out"
	require.NoError(t, artifact.PutJSON(t.Context(), store, artifact.InScenario("sign-out", "r1").File("result.json"), other))
	_, err = copyRun(t.Context(), store, "r1", dir, false, func(int, int) {})
	require.EqualError(t, err, "several scenarios have a run r1; name one of sign-in/r1, sign-out/r1")
	_, err = copyRun(t.Context(), store, "sign-out/r1", dir, false, func(int, int) {})
	require.ErrorContains(t, err, "it holds another scenario run (r1)")
	_, err = copyRun(t.Context(), store, "sign-up/r1", dir, false, func(int, int) {})
	require.ErrorIs(t, err, record.ErrNone)
}

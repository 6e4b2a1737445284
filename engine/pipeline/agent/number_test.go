package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

// No two segments have the same number, whatever their steps are called: not even
// those of a workflow that was reset.
func TestNumbersAreTakenOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, _ := d.run(d.step(launch("main", 0), "run-l1"), says("x"))
	require.Equal(t, 1, r.Step)
	r, _ = d.run(d.step(launch("export", 0), "reset-l1"), says("y"))
	require.Equal(t, 2, r.Step)
	r, _ = d.run(d.step(launch("main", 0), "third-l1"), says("z"))
	require.Equal(t, 3, r.Step)
	require.Contains(t, d.keys(), "steps/003-main/answer.json")

	// An attempt finds the number that an earlier one took, also one that has only
	// reserved it.
	require.NoError(t, artifact.CreateJSON(t.Context(), d.store, d.layout.File("claims/004.json"), artifact.Claim{Token: "run-l4"}))
	require.NoError(t, artifact.CreateJSON(t.Context(), d.store, d.layout.File("claims/005.json"), artifact.Claim{Token: "run-l5"}))
	r, _ = d.run(d.step(launch("lint", 3), "run-l5"), says("x"))
	require.Equal(t, 5, r.Step)
	r, _ = d.run(d.step(launch("lint", 3), "run-l4"), says("y"))
	require.Equal(t, 4, r.Step)

	d.put(d.layout.File("claims/006.json"), []byte("{"))
	_, err := d.step(launch("main", 5), "run-l6").Spec(t.Context(), d.store)
	require.ErrorContains(t, err, "reading the claim of the number 6")
}

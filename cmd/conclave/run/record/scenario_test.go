package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

func TestReadScenario(t *testing.T) {
	t.Parallel()
	store := filled(t)
	layout := artifact.InScenario("sign-in", "r1")
	_, err := ReadScenario(t.Context(), store, layout)
	require.ErrorIs(t, err, ErrNone)

	run := scenario.Run{RunID: "r1", Scenario: "sign-in", Status: scenario.Pass, Steps: []scenario.Result{{ID: "01", Status: scenario.Pass}}}
	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("result.json"), run))
	read, err := ReadScenario(t.Context(), store, layout)
	require.NoError(t, err)
	require.Equal(t, run.Steps[0].ID, read.Steps[0].ID)

	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("result.json"), "nonsense"))
	_, err = ReadScenario(t.Context(), store, layout)
	require.ErrorContains(t, err, "result.json")
}

package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// The outputs of a pipeline's run are its ended steps, by number; the last one is the result once the
// run has ended.
func TestRun_Outputs_pipeline(t *testing.T) {
	t.Parallel()
	store := filled(t, "pipelines/p/steps/1000-main/action.json", "pipelines/p/steps/002-main/action.json", "pipelines/p/steps/002-main/workspace/action.json",
		"pipelines/p/steps/999-lint/action.json", "pipelines/p/steps/003-open/step.json")
	run := Pipelines.At(store, "p")
	outputs, err := run.Outputs(t.Context())
	require.NoError(t, err)
	var labels []string
	for _, o := range outputs {
		labels = append(labels, o.Label)
	}
	require.Equal(t, []string{"002-main", "999-lint", "1000-main"}, labels)
	label, err := run.Result(t.Context(), outputs)
	require.NoError(t, err)
	require.Empty(t, label)
	require.NoError(t, artifact.PutJSON(t.Context(), store, run.Layout.File("result.json"), struct{}{}))
	label, err = run.Result(t.Context(), outputs)
	require.NoError(t, err)
	require.Equal(t, "1000-main", label)
}

func TestRun_OnBase_refuses(t *testing.T) {
	t.Parallel()
	store := filled(t, "sessions/s1/session.json")
	run, err := Sessions.At(store, "s1").OnBase(t.Context())
	require.NoError(t, err)
	require.Nil(t, run.Layout.Base())
	_, err = Sessions.At(store, "s2").OnBase(t.Context())
	require.ErrorContains(t, err, "read the claim of session s2: ")
	require.NoError(t, artifact.PutJSON(t.Context(), store, "sessions/s1/session.json", artifact.Material{Base: "md5:1"}))
	_, err = run.OnBase(t.Context())
	require.ErrorContains(t, err, "read the base of session s1: ")
}

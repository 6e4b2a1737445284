package recordtest

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

// Scenario writes the run r1 of the scenario sign-in to a directory: one step passed at its
// second attempt, another one failed. It returns the directory and the layout of the run.
func Scenario(t testing.TB) (dir string, layout artifact.Layout) {
	t.Helper()
	dir = t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	layout = artifact.InScenario("sign-in", "r1")
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 900, 600))))
	for name, content := range map[string][]byte{
		"step-01/evidence/form.png": picture.Bytes(), "step-02/evidence/console.log": []byte("POST /sign-in 500\n"),
		"step-02/evidence/trace.zip": {0, 1, 2}, "secret.txt": []byte("not evidence"),
	} {
		require.NoError(t, store.Put(t.Context(), layout.File(name), bytes.NewReader(content)))
	}
	require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("result.json"), SignIn()))
	return dir, layout
}

// SignIn returns the result of the run that Scenario writes.
func SignIn() scenario.Run {
	usd, slow, broken, ended := 0.012, "the page took 30 s", "POST /sign-in answers <b>500</b>", "2026-11-22T09:01:10Z"
	return scenario.Run{
		RunID: "r1", RunNumber: 1, Scenario: "sign-in", Title: "A customer signs in", Status: scenario.Fail, StartedAt: "2026-11-22T09:00:00Z", CompletedAt: &ended, DurationMS: 70_000,
		Steps: []scenario.Result{
			{
				ID: "01", Title: "Open the form", Status: scenario.Pass, Flaky: true, DurationMS: 40_000, Summary: "The form is there.",
				EvidencePaths: []string{"step-01/evidence/form.png"}, Cost: llm.Usage{ModelCalls: 3, InputTokens: 4000, OutputTokens: 200, TotalUSD: &usd},
				Attempts: []scenario.Attempt{{Status: scenario.Fail, Error: &slow}, {Status: scenario.Pass, EvidencePaths: []string{"step-01/evidence/form.png"}}},
			},
			{
				ID: "02", Title: "Sign in", Status: scenario.Fail, DurationMS: 30_000, Error: &broken,
				EvidencePaths: []string{"step-02/evidence/console.log", "step-02/evidence/trace.zip"},
			},
			{ID: "03", Title: "Sign out", Status: scenario.Skipped},
		},
	}
}

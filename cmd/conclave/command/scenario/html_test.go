package scenario

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

// The page has the pictures of a run, links to its files, and an index of all runs.
func TestWriteHTML(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "scenarios", "sign-in", "runs", "r1")
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 1200, 700))))
	for name, content := range map[string]string{
		"result.json":                    stored,
		"step-01/evidence/after.png":     picture.String(),
		"../../meta.yaml":                "title: Sign in\nslug: sign-in\nsteps:\n  - {id: '01', title: Open, file: 01-open.md}\n",
		"../../steps/01-open.md":         "Open it.",
		"../../../../prd.md":             "A shop.",
		"../r0/result.json":              `{"run_id":"r0","scenario":"sign-in","status":"pass","started_at":"2026-11-20T10:00:00Z","duration_ms":900,"steps":[]}`,
		"../../../../outside/secret.png": picture.String(),
	} {
		file := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	from, err := OpenProject(dir)
	require.NoError(t, err)
	defer from.Close()
	r, err := scenario.ParseRun([]byte(stored), "sign-in", "r1")
	require.NoError(t, err)
	r.Steps[1].EvidencePaths = []string{"../../../../outside/secret.png"}
	o := &order{project: from, flags: flags{html: filepath.Join(dir, "report.html")}, runs: []*run{{slug: "sign-in", id: "r1", title: "Sign in", result: r}}}
	require.NoError(t, writeHTML(o))
	written, err := os.ReadFile(o.flags.html)
	require.NoError(t, err)
	html := string(written)
	for _, want := range []string{
		`<a href="./scenarios/sign-in/runs/r1/step-01/evidence/after.png"><img alt="after.png" src="data:image/jpeg;base64,`,
		"no button\nin &lt;form&gt;", `<a href="#run-sign-in-r1">sign-in</a><small>r1</small>`, "<small>r0</small>", "1 run, 1 failure",
	} {
		require.Contains(t, html, want)
	}
	require.Equal(t, 1, bytes.Count(written, []byte("<img ")), "nothing outside of the run is read")
	require.NotContains(t, html, "outside/secret.png")
	require.Less(t, len(html), 100_000)
}

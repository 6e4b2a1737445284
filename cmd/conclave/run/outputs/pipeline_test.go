package outputs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
	"conclave/engine/files/snapshot"
)

// pipelineOf returns a store with run p1, whose steps append a line to a file of its base. Step 3
// has not ended.
func pipelineOf(t *testing.T, ended bool) (conn *cli.Connection, out *bytes.Buffer, dir string) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	out = &bytes.Buffer{}
	conn = &cli.Connection{Store: store, CLI: &cli.CLI{Stdout: out, Stderr: out, DataDir: t.TempDir()}}
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }

	dir = t.TempDir()
	content := "base\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte(content), 0o644))
	up, err := snapshot.Upload{Store: store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	b, err := snapshot.Open(t.Context(), store, up.Hash)
	require.NoError(t, err)
	layout := artifact.InPipeline("p1").On(b)
	put(layout.File("pipeline.json"), artifact.Material{Base: snapshot.Reference(up.Hash)})
	work := t.TempDir()
	for i, step := range []string{"main", "lint"} {
		content += step + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(work, "log"), []byte(content), 0o644))
		_, hash, err := artifact.OpenWorkingCopy(store, layout, work, "").Seal(t.Context())
		require.NoError(t, err)
		put(layout.PipelineStep(i+1, step, "action.json"), artifact.Commit{Kind: "completed", Payload: json.RawMessage(`{}`), Manifest: hash})
		put(layout.PipelineStep(i+1, step, "workspace.json"), struct{}{})
	}
	put(layout.PipelineStep(3, "export", "step.json"), struct{}{})
	if ended {
		put(layout.File("result.json"), struct{}{})
	}
	put(artifact.InPipeline("new").File("pipeline.json"), artifact.Material{})
	inputs.Remember(conn, "p1", dir)
	return conn, out, dir
}

// The change of a run is the change after its last step, and is applied to the directory of its
// base.
func TestPipeline_applies(t *testing.T) {
	t.Parallel()
	conn, out, dir := pipelineOf(t, true)
	f, err := findAnswer(t.Context(), conn, "p1", "")
	require.NoError(t, err)
	require.Equal(t, "002-lint", f.Label)
	changes, err := f.readChanges(t.Context())
	require.NoError(t, err)
	require.NoError(t, printPatch(t.Context(), conn, changes))
	require.Contains(t, out.String(), " base\n+main\n+lint\n")
	to, err := targetDir(conn, f, "")
	require.NoError(t, err)
	require.Equal(t, dir, to)
	require.NoError(t, applyChanges(conn, f, to, changes, patch.Options{}))
	require.Contains(t, out.String(), "002-lint of pipeline run p1 applied to "+dir+": 1 file changed\n")

	f, err = findAnswer(t.Context(), conn, "p1", "001-main")
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, printFile(t.Context(), conn, f, "log"))
	require.Equal(t, "base\nmain\n", out.String())
}

func TestFindStep_refuses(t *testing.T) {
	t.Parallel()
	conn, _, _ := pipelineOf(t, false)
	for _, c := range []struct{ id, label, want string }{
		{"p1", "", "pipeline run p1 has no decision yet; name an answer: 001-main, 002-lint"},
		{"p1", "003-export", "pipeline run p1 has no answer 003-export; it has 001-main, 002-lint"},
		{"p1", "agent1.1", "pipeline run p1 has no answer agent1.1"},
		{"new", "", "pipeline run new has no answers yet; `conclave status new"},
		{"p2", "", "there is no session p2"},
	} {
		_, err := findAnswer(t.Context(), conn, c.id, c.label)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}

func TestLabelForm(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{"agent1.2": true, "agent12.final": true, "003-lint": true, "1000-main": true, "001-notes.md": false, "agent1": false} {
		require.Equal(t, want, labelForm.MatchString(word), word)
	}
}

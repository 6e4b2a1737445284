package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/patch"
)

// pipelineOf returns a store with run p1, whose steps append a line to a file of its base. Step 3
// has not ended.
func pipelineOf(t *testing.T, ended bool) (conn *hall.Connection, out *bytes.Buffer, dir string) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	out = &bytes.Buffer{}
	conn = &hall.Connection{Store: store, CLI: &hall.CLI{Stdout: out, Stderr: out, DataDir: t.TempDir()}}
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }

	dir = t.TempDir()
	content := "base\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte(content), 0o644))
	up, err := base.Upload{Store: store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	b, err := base.Open(t.Context(), store, up.Hash)
	require.NoError(t, err)
	layout := artifact.InPipeline("p1").On(b)
	put(layout.File("pipeline.json"), artifact.Material{Base: base.Reference(up.Hash)})
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
	material.Remember(conn, "p1", dir)
	return conn, out, dir
}

// The change of a run is the change after its last step, and is applied to the directory of its
// base.
func TestPipeline_applies(t *testing.T) {
	t.Parallel()
	conn, out, dir := pipelineOf(t, true)
	f, err := find(t.Context(), conn, "p1", "")
	require.NoError(t, err)
	require.Equal(t, "002-lint", f.Label)
	changes, err := f.changes(t.Context())
	require.NoError(t, err)
	require.NoError(t, printPatch(t.Context(), conn, changes))
	require.Contains(t, out.String(), " base\n+main\n+lint\n")
	to, err := target(conn, f, "")
	require.NoError(t, err)
	require.Equal(t, dir, to)
	require.NoError(t, apply(conn, f, to, changes, patch.Options{}))
	require.Contains(t, out.String(), "002-lint of pipeline run p1 applied to "+dir+": 1 file changed\n")

	f, err = find(t.Context(), conn, "p1", "001-main")
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, printFile(t.Context(), conn, f, "log"))
	require.Equal(t, "base\nmain\n", out.String())
}

func TestFindStep_refuses(t *testing.T) {
	t.Parallel()
	conn, _, _ := pipelineOf(t, false)
	for _, c := range []struct{ id, label, want string }{
		{"p1", "", "pipeline run p1 has not ended yet; name a step: 001-main, 002-lint"},
		{"p1", "003-export", "pipeline run p1 has no step 003-export; it has 001-main, 002-lint"},
		{"p1", "agent1.1", "pipeline run p1 has no step agent1.1"},
		{"new", "", "pipeline run new has no finished steps yet"},
		{"p2", "", "there is no session p2"},
	} {
		_, err := find(t.Context(), conn, c.id, c.label)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, hall.ExitUsage, hall.ExitCode(err))
	}
}

func TestCommittedSteps_order(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	layout := artifact.InPipeline("p")
	for _, n := range []int{1000, 2, 999} {
		require.NoError(t, artifact.PutJSON(t.Context(), store, layout.PipelineStep(n, "main", "action.json"), struct{}{}))
	}
	steps, err := committedSteps(t.Context(), store, layout)
	require.NoError(t, err)
	require.Equal(t, "[002-main 999-main 1000-main]", fmt.Sprint(steps))
	for _, name := range steps {
		require.True(t, isLabel(name))
	}
	require.False(t, isLabel("001-notes.md"))
}

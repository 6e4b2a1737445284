package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
)

// The page of a run that has just been started reloads itself until there is a record. A run that
// ended without a record has no page, and neither has an unknown one.
func TestHandler_starting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	var temporal stage.Server
	temporal.Add(&stage.Execution{ID: "p1", Type: "Pipeline"})
	temporal.Add(&stage.Execution{ID: "p2", Type: "Pipeline", Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED})
	temporal.Add(&stage.Execution{ID: "scenario-buy-r1", Type: "Scenario", Memo: map[string]any{"run_id": "r1", "scenario": "buy"}})
	conn, _, stderr := temporal.Connect(store)
	kinds := []*runs.Kind{{Kind: record.Pipelines}, {Kind: record.Scenarios, MemoID: "run_id", MemoSlug: "scenario"}}
	server := httptest.NewServer(New(conn, Options{ReadOnly: true, Kinds: kinds}))
	t.Cleanup(server.Close)

	for _, path := range []string{"/pipelines/p1", "/sessions/p1", "/scenarios/r1", "/scenarios/buy/r1"} {
		code, html, header := get(t, server.URL+path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, "1", header.Get("Refresh"), path)
		require.Contains(t, html, "It is starting: no step has been recorded yet.", path)
	}
	require.Empty(t, stderr.String(), "a look at a page prints nothing")
	for _, id := range []string{"p2", "p3"} {
		code, _, header := get(t, server.URL+"/pipelines/"+id)
		require.Equal(t, http.StatusNotFound, code, id)
		require.Empty(t, header.Get("Refresh"), id)
	}

	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	require.NoError(t, os.CopyFS(dir, os.DirFS(r.Dir)))
	code, html, header := get(t, server.URL+"/pipelines/p1")
	require.Equal(t, http.StatusOK, code)
	require.Empty(t, header.Get("Refresh"))
	require.Contains(t, html, "An old silent pond")
}

package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

// The page of a scenario's run is found by the ID of the run, follows it, and sends its evidence.
func TestHandler_scenario(t *testing.T) {
	t.Parallel()
	dir, layout := stage.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	put := func(r scenario.Run) {
		require.NoError(t, artifact.PutJSON(t.Context(), store, layout.File("result.json"), r))
	}
	ended := stage.SignIn()
	running := ended
	running.Status, running.CompletedAt, running.Steps = scenario.Running, nil, ended.Steps[:1]
	put(running)
	server := storeServer(t, store)
	code, html, _ := get(t, server.URL+"/scenarios/r1") // redirects
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, `<strong class="chip running">running</strong>`)
	require.Contains(t, html, `<a href="/scenarios/sign-in/r1/evidence/step-01/evidence/form.png"><img alt="form.png" src="data:image/jpeg;base64,`)
	require.NotContains(t, html, "Sign in</h3>")

	s := follow(t, server.URL+since.FindStringSubmatch(html)[1], "")
	put(ended)
	last := map[string]string{}
	for parts := s.next(); parts != nil; parts = s.next() {
		for id, part := range parts {
			last[id] = part
		}
	}
	require.NotContains(t, last, "run-sign-in-r1-step-01", "it has not changed")
	require.Contains(t, last["run-sign-in-r1-step-02"], "POST /sign-in answers &lt;b&gt;500&lt;/b&gt;")
	require.Contains(t, last["head"], `<strong class="chip fail">fail</strong>`)

	code, body, header := get(t, server.URL+"/scenarios/sign-in/r1/evidence/step-02/evidence/console.log")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "POST /sign-in 500\n", body)
	require.Equal(t, `attachment; filename="console.log"`, header.Get("Content-Disposition"))
	for _, missing := range []string{"sign-in/r1/evidence/secret.txt", "sign-in/r1/evidence/result.json", "sign-in/r1/evidence/step-02/evidence/none", "r2", "sign-in/r2", "sign-in/r2/evidence/x", "Sign-in/r1"} {
		code, _, _ = get(t, server.URL+"/scenarios/"+missing)
		require.Equal(t, http.StatusNotFound, code, missing)
	}
	code, _, _ = get(t, server.URL+"/sessions/r1/steps/01/1")
	require.Equal(t, http.StatusNotFound, code)
}

// The directory of a run has its page.
func TestDirectory_scenario(t *testing.T) {
	t.Parallel()
	dir, layout := stage.Scenario(t)
	dir = filepath.Join(dir, filepath.FromSlash(layout.Root()))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	h, path := Directory("r1", record.InDirectory(store, root))
	require.Equal(t, "/scenarios/directory/r1", path)
	server := httptest.NewServer(h)
	defer server.Close()
	code, html, _ := get(t, server.URL+"/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, "<li>1 of 3 steps passed</li>")
	require.Contains(t, html, "Attempt 1: fail")
}

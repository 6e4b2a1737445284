package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// storeServer serves the pages of a store without Temporal.
func storeServer(t *testing.T, store artifact.Store) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(New(&cli.Connection{CLI: &cli.CLI{}, Store: store}, Options{}))
	t.Cleanup(server.Close)
	return server
}

// The page of a pipeline's run follows it, and leads to the session of a team.
func TestHandler_pipeline(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	server := storeServer(t, r.Store)
	code, html, _ := get(t, server.URL+"/pipelines/p1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, `<strong class="chip running">running</strong>`)
	require.Contains(t, html, `<a href="/pipelines/p1/visits/1/haiku.txt" download>download</a>`)
	_, file, _ := get(t, server.URL+"/pipelines/p1/visits/1/haiku.txt?view")
	require.Equal(t, `<pre class="code" id="file-visit_1-haiku.txt" tabindex="0">An old silent pond`+"\n</pre>", file)
	_, file, header := get(t, server.URL+"/pipelines/p1/visits/1/haiku.txt")
	require.Equal(t, "An old silent pond\n", file)
	require.Equal(t, `attachment; filename="haiku.txt"`, header.Get("Content-Disposition"))
	for _, missing := range []string{"1/other.txt", "0/haiku.txt", "2/haiku.txt", "x/haiku.txt"} {
		code, _, _ = get(t, server.URL+"/pipelines/p1/visits/"+missing)
		require.Equal(t, http.StatusNotFound, code, missing)
	}
	require.NotContains(t, html, "<form method=\"post\"", "without Temporal nothing can be steered")
	s := follow(t, server.URL+since.FindStringSubmatch(html)[1], "")
	r.Visit(5, "decide", "A frog jumps", "consensus")
	for parts := s.next(); !strings.Contains(parts["visit-2"], `<a href="/sessions/p1-decide-l2">its session</a>`); parts = s.next() {
		require.NotNil(t, parts)
		require.NotContains(t, parts, "visit-1", "it has not changed")
	}
	r.End("# The end")
	last := map[string]string{}
	for parts := s.next(); parts != nil; parts = s.next() {
		for id, part := range parts {
			last[id] = part
		}
	}
	require.Contains(t, last["decision"], "<h3>The end</h3>")
	require.Contains(t, last["head"], `<strong class="chip completed">completed</strong>`)

	code, _, _ = get(t, server.URL+"/pipelines/p2")
	require.Equal(t, http.StatusNotFound, code)
	code, _, _ = get(t, server.URL+"/sessions/p1/steps/main/1")
	require.Equal(t, http.StatusNotFound, code)
}

// Without Temporal the list is that of the store.
func TestHandler_listOfStore(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(5, "decide", "A frog jumps", "consensus")
	dir, _ := stage.Scenario(t)
	require.NoError(t, os.CopyFS(r.Dir, os.DirFS(dir)))
	server := storeServer(t, r.Store)
	_, html, _ := get(t, server.URL+"/")
	require.Contains(t, html, `<a href="/scenarios/sign-in/r1">A customer signs in</a><small>sign-in/r1 · scenario run</small>`)
	require.Contains(t, html, `<a href="/pipelines/p1">Write a haiku.</a>`)
	require.Contains(t, html, `<a href="/sessions/p1-decide-l1">A frog jumps</a>`)
	_, html, _ = get(t, server.URL+"/?text=haiku")
	require.Contains(t, html, "1 of 3")
	code, body, _ := get(t, server.URL+"/sessions/nothing")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, body, "there is no session nothing")
	require.Contains(t, body, `<a class="button main" href="/">All sessions</a>`)
}

// The directory of a pipeline's run has a page.
func TestDirectory_pipeline(t *testing.T) {
	t.Parallel()
	r := stage.NewPipelineRun(t, "p1")
	r.End("Done.")
	dir := r.Dir + "/pipelines/p1"
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	h, path := Directory("p1", record.InDirectory(store, root))
	require.Equal(t, "/pipelines/p1", path)
	server := httptest.NewServer(h)
	defer server.Close()
	code, html, _ := get(t, server.URL+"/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, "The result")
}

// The text of an unfinished reply is a separate part, which is removed with its step.
func TestFollowed_reply(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	f := newFollowed("/sessions/s1", newSession(record.NewReader(p.Store, p.Layout, nil)))
	work := []cli.Activity{{Agent: "agent_a", Said: "Beca"}}
	f.activities = func(context.Context) []cli.Activity { return work }
	require.NoError(t, f.refresh(t.Context()))
	parts, version, _, _ := f.newerParts(0)
	require.Contains(t, partsByID(parts)["said-step-agent_a-001"], "<pre>Beca</pre>")
	require.NotContains(t, partsByID(parts)["said-step-agent_b-001"], "<pre>")

	work[0].Said = "Because <b>"
	f.mu.Lock()
	require.NoError(t, f.redrawParts(t.Context()))
	f.mu.Unlock()
	parts, version, _, _ = f.newerParts(version)
	require.Contains(t, partsByID(parts)["said-step-agent_a-001"], "<pre>Because &lt;b&gt;</pre>")
	require.NotContains(t, partsByID(parts), "step-agent_b-001")

	p.Answer(1, "agent_a", "Because.", nil)
	require.NoError(t, f.refresh(t.Context()))
	parts, _, _, _ = f.newerParts(version)
	require.Contains(t, partsByID(parts)["step-agent_a-001"], "answer agent1.1")
	require.NotContains(t, partsByID(parts)["step-agent_a-001"], "said-step")
}

func partsByID(parts []page.Part) map[string]string {
	byID := map[string]string{}
	for _, p := range parts {
		byID[p.ID] = p.HTML
	}
	return byID
}

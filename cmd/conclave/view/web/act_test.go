package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/callers"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	ledger "conclave/engine/session"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// starting makes a site record the sessions that are started.
func starting(s *site) *[]*stage.Execution {
	var started []*stage.Execution
	s.temporal.Starts = func(e *stage.Execution) error {
		started = append(started, e)
		return nil
	}
	return &started
}

// decide stores a session that has decided for an answer.
func decide(t *testing.T, store artifact.Store, id string) artifact.Layout {
	t.Helper()
	layout := artifact.InBucket(id)
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }
	put(layout.File("session.json"), artifact.Session{Query: "Tabs or spaces?", Owner: artifact.Owner{WorkflowID: id}})
	put(layout.File("status.json"), acts.State{SessionID: id, Status: "consensus", Final: &acts.FinalAnswer{Agent: "agent_a", Label: "agent1.1"}})
	put(layout.Final("agent_a", "answer.json"), artifact.Answer{AgentID: "agent_a", Answer: "Tabs."})
	return layout
}

// A question on the list starts a session of the default team, one on a page continues the session of
// the page, and the reader is led to the new page.
func TestStartSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	started := starting(s)
	decide(t, s.conn.Store, "s2")
	for path, continues := range map[string]string{"/ask": "", "/sessions/s2/continue": "s2"} {
		*started = nil
		status, to, _ := s.post(path, s.form("text", "And in Go?"))
		require.Equal(t, http.StatusSeeOther, status)
		require.Len(t, *started, 1)
		one := (*started)[0]
		require.Equal(t, sessionflow.Input{Query: "And in Go?", Continues: continues}, one.Input)
		require.True(t, strings.HasPrefix(to, "/sessions/"+one.ID+"?n="), to)
		require.Equal(t, continues != "", one.Memo[workflows.MemoContinues] == "s2")
	}
}

// What a server offers for the titles of chat clients is no team to ask from a page.
func TestHandler_teamsToAsk(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) {
		o.Desk = gateway.New(nil, []gateway.Team{gateway.WorkersTeam("default"), {Name: gateway.Single, Aside: true}}, "")
	})
	status, html, _ := get(t, s.URL+"/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, html, `action="/ask"`)
	require.NotContains(t, html, "team-ask")
}

// A session that the holder of a key starts belongs to the key.
func TestStartSession_byKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	started := starting(s)
	gate, key := callers.Gate(t, access.Caller{Name: "bob"}, s.handler)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/ask", strings.NewReader(s.form("text", "Why?").Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("", key)
	w := httptest.NewRecorder()
	gate.ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	require.Len(t, *started, 1)
	require.Equal(t, "bob", (*started)[0].Memo[workflows.MemoCaller])
}

func TestStartSession_refuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	started := starting(s)
	said := func(path, text string) string {
		status, to, _ := s.post(path, s.form("text", text))
		require.Equal(t, http.StatusSeeOther, status)
		n := s.handler.takeNotice(to[strings.Index(to, "?n=")+len("?n="):])
		require.True(t, n.failed)
		return n.text
	}
	require.Equal(t, "the question is empty; write one", said("/ask", " \n"))
	require.Contains(t, said("/ask", "a\xffb"), "QUESTION")
	_, to, _ := s.post("/ask", s.form("text", "Why?", "team", "nobody"))
	require.Contains(t, s.handler.takeNotice(to[len("/?n="):]).text, `there is no team "nobody" for you; you may ask: default`)
	require.Contains(t, said("/sessions/s9/continue", "And now?"), "session s9 cannot be continued: the store has no such session")
	for _, path := range []string{"/ask", "/sessions/s2/continue"} {
		status, _, body := s.post(path, url.Values{"text": {"Why?"}})
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "no valid token")
	}
	readOnly := newSite(t, func(o *Options) { o.ReadOnly = true })
	status, _, body := readOnly.post("/ask", readOnly.form("text", "Why?"))
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "read-only")
	require.Empty(t, *started)
}

// changedSession stores a session whose decision changes a file of a directory, and remembers the directory.
func changedSession(t *testing.T, s *site) (dir, change string) {
	t.Helper()
	s.conn.Cluster, s.conn.CLI.DataDir, s.conn.Target.DataDir = false, t.TempDir(), t.TempDir()
	dir = t.TempDir()
	name := filepath.Join(dir, "a.txt")
	require.NoError(t, os.WriteFile(name, []byte("old\n"), 0o600))
	up, err := snapshot.Upload{Store: s.conn.Store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	base, err := snapshot.Open(t.Context(), s.conn.Store, up.Hash)
	require.NoError(t, err)
	layout := decide(t, s.conn.Store, "s3").On(base)
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "a.txt"), []byte("new\n"), 0o600))
	_, hash, err := artifact.OpenWorkingCopy(s.conn.Store, layout, work, "").Seal(t.Context())
	require.NoError(t, err)
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), s.conn.Store, key, doc)) }
	put(layout.File("session.json"), artifact.Session{Query: "Why?", Owner: artifact.Owner{WorkflowID: "s3"}, Material: artifact.Material{Base: snapshot.Reference(up.Hash)}})
	put(layout.Step("agent_a", 1, "action.json"), artifact.Commit{Kind: "new_answer", Payload: []byte(`{"answer":"A."}`), Manifest: hash})
	put(layout.Ledger(1), ledger.Entry{Run: "r1", Accepted: coordination.Accepted{Seq: 1, Agent: "agent_a", Step: 1, Action: coordination.NewAnswer, Label: "agent1.1"}})
	change = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-old\n+new\n"
	require.NoError(t, s.conn.Store.Put(t.Context(), layout.Final("agent_a", "change.patch"), strings.NewReader(change)))
	inputs.Remember(s.conn, "s3", dir)
	s.temporal.Add(&stage.Execution{ID: "s3", Type: "Session", Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED})
	return dir, change
}

// The change that the page shows is applied to the directory that the base came from, and no other change.
func TestApply(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	dir, change := changedSession(t, s)
	_, html, _ := get(t, s.URL+"/sessions/s3")
	require.Contains(t, html, `name="change" value="`+page.HashOfPatch(change)+`"`)
	apply := func(shown string) notice {
		status, to, _ := s.post("/sessions/s3/apply", s.form("change", shown))
		require.Equal(t, http.StatusSeeOther, status)
		return s.handler.takeNotice(to[strings.Index(to, "?n=")+len("?n="):])
	}
	content := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "a.txt"))
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, notice{"the change is no longer the one that was shown; look at it again", true}, apply("another"))
	require.Equal(t, "old\n", content())
	for name, forbid := range map[string]func(*Handler){
		"every user may connect": func(h *Handler) { h.AnyUser = true },
		"a cluster":              func(h *Handler) { h.conn.Cluster = true },
	} {
		forbid(s.handler)
		require.Equal(t, notice{"the change cannot be applied from here; use the command", true}, apply(page.HashOfPatch(change)), name)
		s.handler.AnyUser, s.handler.conn.Cluster = false, false
	}
	require.Equal(t, "old\n", content())
	said := apply(page.HashOfPatch(change))
	require.False(t, said.failed, said.text)
	require.Contains(t, said.text, "agent1.1 of session s3 applied to "+dir+": 1 file changed")
	require.Equal(t, "new\n", content())
}

// A notice names no command that the page has as a button.
func TestWithoutCommands(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"session s1: paused, nothing is lost; `conclave resume s1` resumes it":                                               "session s1: paused, nothing is lost",
		"session s1: sent; agents read it at the next safe point, `conclave watch s1` follows it\nno worker runs steps":      "session s1: sent; agents read it at the next safe point\nno worker runs steps",
		"pause session s1: it has ended already; `conclave result s1` prints the result, `conclave list` lists the sessions": "pause session s1: it has ended already",
		"session s1 was asked to end; what it has made stays on record":                                                      "session s1 was asked to end; what it has made stays on record",
	} {
		require.Equal(t, want, withoutCommands(said))
	}
}

// Each page leads to the newer and the older run of its kind.
func TestGoBeside(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for i, id := range []string{"older", "middle", "newest", "eval-x-q1-1"} {
		s.temporal.Add(&stage.Execution{ID: id, Type: "Session", Started: stage.Began.Add(time.Duration(i) * time.Hour)})
	}
	beside := func(id, where string) string {
		reply, err := s.Client().Get(s.URL + "/sessions/" + id + "/" + where)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusSeeOther, reply.StatusCode)
		return reply.Header.Get("Location")
	}
	require.Equal(t, "/sessions/older", beside("middle", "older"))
	require.Equal(t, "/sessions/newest", beside("middle", "newer"))
	to := beside("newest", "newer")
	require.True(t, strings.HasPrefix(to, "/sessions/newest?n="), to)
	require.Equal(t, notice{text: "There is no newer one."}, s.handler.takeNotice(to[len("/sessions/newest?n="):]))
}

// An unknown address has a page that leads to the list, not a line of text.
func TestHandler_unknownAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, says := range map[string]string{
		"/nothing": "nothing is at /nothing", "/sessions/none": "there is no session none", "/pipelines/none": "there is no pipeline run none", "/scenarios/none": "there is no scenario run none",
	} {
		status, html, header := get(t, s.URL+path)
		require.Equal(t, http.StatusNotFound, status, path)
		require.Contains(t, html, says)
		require.Contains(t, html, `href="/">All sessions</a>`)
		require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	}
	require.Equal(t, "/sessions/x", record.Sessions.At(nil, "x").Page())
}

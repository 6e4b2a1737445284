package web

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/callers"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// site is a server of pages with the sessions of a Temporal server.
type site struct {
	*httptest.Server
	t        *testing.T
	handler  *Handler
	conn     *cli.Connection
	temporal *stage.Server
	sent     []string // updates, as "id name payload"
}

// newSite serves the pages of sessions s1, which runs, and s2, which has ended.
func newSite(t *testing.T, change func(*Options)) *site {
	t.Helper()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}})
	s := &site{t: t, temporal: &stage.Server{}}
	s.temporal.Add(&stage.Execution{ID: "s1", Type: "Session", State: map[string]any{"answers": 1}})
	s.temporal.Add(&stage.Execution{ID: "s2", Type: "Session", Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, Memo: map[string]any{workflows.MemoQuery: "Tabs or spaces?"}})
	s.temporal.Updates = func(id, name string, payload any) (any, error) {
		request, _ := payload.(workflows.Request)
		s.sent = append(s.sent, strings.TrimSpace(strings.Join([]string{id, name, request.Agent, request.Text}, " ")))
		return map[string]any{"answers": 1}, nil
	}
	conn, _, _ := s.temporal.Connect(p.Store)
	conn.Cluster = true
	o := Options{Kinds: []*runs.Kind{{Kind: record.Sessions, List: "list"}}}
	if change != nil {
		change(&o)
	}
	s.handler, s.conn = New(conn, o), conn
	// The page of s1 is that of the play, whose documents lie at the root of its store.
	s.handler.pages["/sessions/s1"] = newFollowed("/sessions/s1", &counter{})
	s.Server = httptest.NewServer(s.handler)
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(s.Close)
	return s
}

// post sends a form and returns the status, the address of a redirect, and the body.
func (s *site) post(path string, form url.Values) (status int, to, body string) {
	s.t.Helper()
	reply, err := s.Client().PostForm(s.URL+path, form)
	require.NoError(s.t, err)
	defer func() { _ = reply.Body.Close() }()
	data, err := io.ReadAll(reply.Body)
	require.NoError(s.t, err)
	return reply.StatusCode, reply.Header.Get("Location"), string(data)
}

func (s *site) form(pairs ...string) url.Values {
	form := url.Values{"token": {s.handler.token}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// A form has the same effect as the command of its name, and the page then shows this once.
func TestSteer(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, tc := range []struct {
		verb, agent, text string
		sent, says        string
		failed            bool
	}{
		{verb: "pause", sent: "s1 pause", says: "paused, nothing is lost"},
		{verb: "resume", sent: "s1 resume", says: "resumed"},
		{verb: "finish", sent: "s1 finish", says: "it ends without one"},
		{verb: "say", text: "Be brief.", sent: "s1 say  Be brief.", says: "agents read it at the next safe point"},
		{verb: "say", text: "Be brief.", agent: "agent_a", sent: "s1 say agent_a Be brief.", says: "agent_a reads it"},
		{verb: "say", text: " \n", says: "the message is empty", failed: true},
		{verb: "say", text: "a\xffb", says: "TEXT", failed: true},
		{verb: "delete", says: `"delete" is not a request to a run; it is one of say, pause, resume, finish, retry, cancel`, failed: true},
	} {
		s.sent = nil
		status, to, _ := s.post("/sessions/s1/"+tc.verb, s.form("agent", tc.agent, "text", tc.text))
		require.Equal(t, http.StatusSeeOther, status)
		key, ok := strings.CutPrefix(to, "/sessions/s1?n=")
		require.True(t, ok, to)
		said := s.handler.notices[key]
		require.Contains(t, said.text, tc.says)
		require.Equal(t, tc.failed, said.failed, said.text)
		if tc.sent == "" {
			require.Empty(t, s.sent)
		} else {
			require.Equal(t, []string{tc.sent}, s.sent)
		}
		_, html, _ := get(t, s.URL+to)
		require.Contains(t, html, said.text)
		_, html, _ = get(t, s.URL+to)
		require.NotContains(t, html, said.text)
	}
}

// A cancelled session is asked to end, and its page does not wait for the end.
func TestSteer_cancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	said := func(id string) notice {
		_, to, _ := s.post("/sessions/"+id+"/cancel", s.form())
		return s.handler.takeNotice(to[strings.Index(to, "?n=")+len("?n="):])
	}
	require.Equal(t, notice{text: "session s1: asked to end; what it has made stays on record"}, said("s1"))
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, s.temporal.Find("s1").Status)
	require.Equal(t, notice{"cancel session s2: it has ended already (completed)", true}, said("s2"))
}

// The page reports a run that is gone or has ended, and a server that does not answer.
func TestSteer_fails(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	notice := func(id string) string {
		status, to, _ := s.post("/sessions/"+id+"/pause", s.form())
		require.Equal(t, http.StatusSeeOther, status)
		_, key, _ := strings.Cut(to, "?n=")
		said := s.handler.takeNotice(key)
		require.True(t, said.failed)
		return said.text
	}
	require.Contains(t, notice("s2"), "session s2")
	require.Contains(t, notice("s9"), "s9")
	s.temporal.Down = errors.New("connection refused")
	require.Contains(t, notice("s1"), "connection refused")
	require.Empty(t, s.sent)

	status, _, body := s.post("/pipelines/p%20 1/pause", s.form())
	require.Equal(t, http.StatusSeeOther, status)
	require.Empty(t, body)
	reply, _, _ := get(t, s.URL+"/")
	require.Equal(t, http.StatusBadGateway, reply)
}

// A form without the token of this process, and one that is too long, have no effect.
func TestSteer_refuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for name, form := range map[string]url.Values{
		"no token":      {},
		"a wrong token": {"token": {s.handler.token + "x"}},
		"a short token": {"token": {s.handler.token[:8]}},
	} {
		status, _, body := s.post("/sessions/s1/pause", form)
		require.Equal(t, http.StatusForbidden, status, name)
		require.Contains(t, body, "load the page again", name)
		require.NotContains(t, body, s.handler.token)
	}
	status, _, body := s.post("/sessions/s1/pause?token="+s.handler.token, url.Values{})
	require.Equal(t, http.StatusForbidden, status, "an address ends up in logs: %s", body)
	status, _, body = s.post("/sessions/s1/say", s.form("text", strings.Repeat("x", 4*coordination.MaxText)))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "too long")
	require.Empty(t, s.sent)

	readOnly := newSite(t, func(o *Options) { o.ReadOnly = true })
	status, _, body = readOnly.post("/sessions/s1/pause", readOnly.form())
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "read-only")
	readOnly.conn.Client = nil
	status, _, _ = readOnly.post("/sessions/s1/pause", readOnly.form())
	require.Equal(t, http.StatusForbidden, status)
	require.Empty(t, readOnly.sent)
}

// The list has the runs of Temporal, each with a link to its page.
func TestHandler_listOfTemporal(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) {
		o.Kinds = append(o.Kinds, &runs.Kind{Kind: record.Scenarios, List: "scenario list", MemoID: "run_id", MemoSlug: "scenario"})
	})
	s.temporal.Add(&stage.Execution{ID: "scenario-buy-r1", Type: "Scenario", Memo: map[string]any{"run_id": "r1", "scenario": "buy"}})
	status, html, _ := get(t, s.URL+"/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, html, `<a href="/sessions/s2">Tabs or spaces?</a>`)
	require.Contains(t, html, "/sessions/s1")
	require.Contains(t, html, `href="/scenarios/buy/r1"`)
}

// The list of a key has the sessions that it has started.
func TestHandler_listOfKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.temporal.Add(&stage.Execution{ID: "hers", Type: "Session", Memo: map[string]any{workflows.MemoCaller: "alice"}})
	gate, key := callers.Gate(t, callers.Alice, s.handler)
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
	r.SetBasicAuth("", key)
	w := httptest.NewRecorder()
	gate.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "/sessions/hers")
	require.NotContains(t, w.Body.String(), "/sessions/s2")
}

// A page needs a store and a valid ID.
func TestHandler_noStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.conn.Store = nil
	status, body, _ := get(t, s.URL+"/sessions/s5")
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, body, "name it with --bucket")
	for _, id := range []string{"..%2Fs1", "a%20b", strings.Repeat("x", 300)} {
		status, _, _ = get(t, s.URL+"/sessions/"+id)
		require.Equal(t, http.StatusNotFound, status, id)
	}
}

// The evaluation of an answer has a transcript.
func TestHandler_evaluation(t *testing.T) {
	t.Parallel()
	_, base := serving(t, stage.Evaluated(t))
	status, html, _ := get(t, base+"/evaluations/agent1.1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, html, "You are one of several agents.")
	for _, missing := range []string{"/evaluations/agent9.9", "/evaluations/x", "/steps/agent_a/0", "/steps/agent_a/x"} {
		status, _, _ = get(t, base+missing)
		require.Equal(t, http.StatusNotFound, status, missing)
	}
	_, plain := serving(t, stage.ThreeRounds(t))
	status, _, _ = get(t, plain+"/evaluations/agent1.1")
	require.Equal(t, http.StatusNotFound, status, "an answer without an evaluation")
}

// Serve listens for this machine only, and its stop ends the streams of its readers.
func TestServe(t *testing.T) {
	t.Parallel()
	h, base := Directory("s1", record.InDirectory(stage.ThreeRounds(t).Store, nil))
	for _, listen := range []string{"0.0.0.0:0", "127.0.0.1", "example.com:80"} {
		_, _, err := Serve(h, listen)
		require.Error(t, err, listen)
	}
	address, stop, err := Serve(h, "127.0.0.1:0")
	require.NoError(t, err)
	status, html, _ := get(t, address+base)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, html, "Which database suits a small shop?")
	_, _, err = Serve(h, strings.TrimPrefix(address, "http://"))
	require.ErrorContains(t, err, "choose another --listen")

	running, base := Directory("s1", record.InDirectory(stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}}).Store, nil))
	address, end, err := Serve(running, "127.0.0.1:0")
	require.NoError(t, err)
	reply, err := http.Get(address + base + "/events")
	require.NoError(t, err)
	end()
	_, _ = io.ReadAll(reply.Body) // ends with the server
	require.NoError(t, reply.Body.Close())
	stop()
	_, err = http.Get(address)
	require.Error(t, err)
}

// A command offers pages to the person who watches it, and to nobody else.
func TestOffer(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	stop := Offer(s.conn, s.handler.Kinds...)
	require.True(t, strings.HasPrefix(s.conn.Pages, "http://127.0.0.1:"), s.conn.Pages)
	status, _, _ := get(t, s.conn.Pages+"/")
	require.Equal(t, http.StatusOK, status)
	stop()
	served := *s.conn
	served.Pages = "http://127.0.0.1:8333" // by a dev of the data directory
	Offer(&served, s.handler.Kinds...)()
	require.Equal(t, "http://127.0.0.1:8333", served.Pages)
	for _, change := range []func(*cli.Connection){
		func(c *cli.Connection) { c.CLI = &cli.CLI{JSON: true} },
		func(c *cli.Connection) { c.CLI = &cli.CLI{Automation: true} },
		func(c *cli.Connection) { c.Store = nil },
	} {
		other := *s.conn
		other.Pages = ""
		change(&other)
		Offer(&other)()
		require.Empty(t, other.Pages)
	}
}

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/llm"
)

// started is a running server with the sessions that a test plays.
type started struct {
	t      *testing.T
	played *callers.Temporal
	conn   *cli.Connection
	*Server
	key string
}

func startServer(t *testing.T, o Options) started {
	t.Helper()
	played := callers.New(t)
	conn := played.Connection(t)
	o.Listen, o.AnyUser, o.Version = "127.0.0.1:0", true, "1"
	o.Teams = []gateway.Team{gateway.WorkersTeam("default"), gateway.WorkersTeam("reviewers")}
	s, err := Start(t.Context(), conn, o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return started{t: t, played: played, conn: conn, Server: s}
}

// keyed returns the options of a server that admits one caller, and the caller's key.
func keyed(t *testing.T, by access.Caller) (o Options, key string) {
	t.Helper()
	key, line := access.NewKey(by)
	file := filepath.Join(t.TempDir(), "keys")
	writeFile(t, file, line+"\n")
	keys, err := access.LoadKeys(file)
	require.NoError(t, err)
	return Options{Keys: keys}, key
}

func (s started) send(method, path, body string, headers ...string) (status int, text string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.Address+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, string(data)
}

const (
	asks  = `{"model":"conclave/reviewers","messages":[{"role":"user","content":"Tabs?"}]}`
	lists = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
)

// mcpHeaders are those that a client of the protocol sends.
var mcpHeaders = []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}

// One address has the API, the tools and the pages.
func TestServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	require.Equal(t, s.Address, s.conn.Pages, "other commands name the pages")
	status, body := s.send(http.MethodGet, "/v1/models", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"conclave/reviewers"`)

	go func() { s.played.Begun(t).Decide("Tabs.", llm.Usage{}) }()
	status, body = s.send(http.MethodPost, "/v1/chat/completions", asks)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"content":"Tabs."`)

	for _, path := range []string{"/v1", "/v1/", "/v1/embeddings"} {
		status, body = s.send(http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, status)
		require.Contains(t, body, `"code":"unknown_url"`)
	}

	status, body = s.send(http.MethodPost, "/mcp", lists, mcpHeaders...)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"ask_team"`)
	status, body = s.send(http.MethodPost, "/v1/models", "", "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, status, body)
	status, _ = s.send(http.MethodGet, "/v1/models", "", "Origin", s.Address)
	require.Equal(t, http.StatusOK, status)
}

func TestServer_readOnly(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{ReadOnly: true})
	status, body := s.send(http.MethodPost, "/v1/chat/completions", asks)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "it runs with --read-only")
	_, body = s.send(http.MethodPost, "/mcp", lists, mcpHeaders...)
	require.Contains(t, body, `"session_result"`)
	for _, starts := range []string{`"ask_team"`, `"say"`, `"decide_now"`} {
		require.NotContains(t, body, starts)
	}
	require.Zero(t, s.played.Count())
}

// A key is for its teams, on every path.
func TestServer_keys(t *testing.T) {
	t.Parallel()
	o, key := keyed(t, callers.Alice)
	s := startServer(t, o)
	for _, path := range []string{"/v1/models", "/mcp", "/", "/sessions/s1"} {
		status, body := s.send(http.MethodGet, path, "")
		require.Equal(t, http.StatusUnauthorized, status, path)
		require.NotContains(t, body, key)
	}
	s.key = key
	_, body := s.send(http.MethodGet, "/v1/models", "")
	require.Contains(t, body, `"conclave/reviewers"`)
	require.NotContains(t, body, `"id":"conclave"`)
	status, body := s.send(http.MethodPost, "/v1/chat/completions", strings.Replace(asks, "/reviewers", "", 1))
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "the models are conclave/reviewers")
	_, body = s.send(http.MethodPost, "/mcp", lists, mcpHeaders...)
	require.Contains(t, body, "teams: reviewers.")
}

// A load balancer asks without a key, and learns no address.
func TestServer_health(t *testing.T) {
	t.Parallel()
	o, _ := keyed(t, callers.Alice)
	s := startServer(t, o)
	status, body := s.send(http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok\n", body)
	status, body = s.send(http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ready\n", body)
	status, _ = s.send(http.MethodPost, "/readyz", "{}")
	require.NotEqual(t, http.StatusOK, status)

	s.played.Leave(errors.New("dial tcp 10.0.0.1:7233: connection refused"))
	status, body = s.send(http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "Temporal does not answer\n", body)
	status, _ = s.send(http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, status)
}

// A taken port is an error, unless any port is acceptable.
func TestServer_port(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	conn := callers.New(t).Connection(t)
	o := Options{Listen: taken.Addr().String(), AnyUser: true}
	_, err = Start(t.Context(), conn, o)
	require.ErrorContains(t, err, "listen on "+o.Listen)
	require.ErrorContains(t, err, "choose another address with --listen")
	o.AnyPort = true
	s, err := Start(t.Context(), conn, o)
	require.NoError(t, err)
	require.NotEqual(t, "http://"+o.Listen, s.Address)
	s.Stop()
	_, err = http.Get(s.Address)
	require.Error(t, err)
	err = <-s.Failed()
	require.ErrorIs(t, err, http.ErrServerClosed)
	require.ErrorContains(t, err, "serve "+s.Address)
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(err))
}

// Without keys the server admits only this user, here the user of the tests.
func TestServer_thisUser(t *testing.T) {
	t.Parallel()
	conn := callers.New(t).Connection(t)
	s, err := Start(t.Context(), conn, Options{Listen: "127.0.0.1:0", Teams: []gateway.Team{gateway.WorkersTeam("default")}})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	status, _ := started{t: t, Server: s}.send(http.MethodGet, "/v1/models", "")
	require.Equal(t, http.StatusOK, status)
}

// A reply in progress breaks off when the server stops, but its session continues.
func TestServer_stops(t *testing.T) {
	t.Parallel()
	s := startServer(t, Options{})
	broken := make(chan string)
	go func() {
		res, err := http.Post(s.Address+"/v1/chat/completions", "application/json", strings.NewReader(strings.Replace(asks, "{", `{"stream":true,`, 1)))
		if err != nil {
			broken <- err.Error()
			return
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body) // until the connection breaks
		broken <- string(data)
	}()
	begun := s.played.Begun(t)
	s.Stop()
	require.NotContains(t, <-broken, "[DONE]")
	require.Empty(t, begun.Updates())
	again := startAgain(t, s)
	begun.Decide("Tabs.", llm.Usage{})
	status, body := again.send(http.MethodPost, "/v1/chat/completions", strings.Replace(asks, "{", `{"stream":true,`, 1), "X-Stainless-Retry-Count", "1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "Tabs.")
	require.Equal(t, 1, s.played.Count())
}

func startAgain(t *testing.T, s started) started {
	t.Helper()
	o := Options{Listen: strings.TrimPrefix(s.Address, "http://"), AnyUser: true, Teams: []gateway.Team{gateway.WorkersTeam("reviewers")}}
	next, err := Start(t.Context(), s.conn, o)
	require.NoError(t, err)
	t.Cleanup(next.Stop)
	return started{t: t, played: s.played, conn: s.conn, Server: next}
}

// The address of a page is that at which the client reached the server; this machine uses loopback.
func TestServer_reached(t *testing.T) {
	t.Parallel()
	const by = "http://team.example:8333"
	for listens, want := range map[string]struct{ here, there string }{
		"127.0.0.1": {"http://127.0.0.1:8333", "http://127.0.0.1:8333"},
		"::1":       {"http://[::1]:8333", "http://[::1]:8333"},
		"::":        {"http://127.0.0.1:8333", by},
		"0.0.0.0":   {"http://127.0.0.1:8333", by},
		"10.0.0.1":  {"http://10.0.0.1:8333", "http://10.0.0.1:8333"},
	} {
		s := &Server{}
		s.Address, s.everywhere = addressOf(&net.TCPAddr{IP: net.ParseIP(listens), Port: 8333})
		require.Equal(t, want.here, s.Address)
		require.Equal(t, want.there, s.reachedAddress(httptest.NewRequest(http.MethodPost, by+"/v1/chat/completions", nil)))
	}
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	offered := []gateway.Team{gateway.WorkersTeam("default"), gateway.WorkersTeam("reviewers")}
	withKeys, _ := keyed(t, callers.Alice)
	for want, o := range map[string]Options{
		"Callers     the keys of alice\n":                             withKeys,
		"Callers     only you and root, with any key or none\n":       {},
		"Callers     anybody on this machine, with any key or none\n": {AnyUser: true},
	} {
		o.Teams = offered
		out := announcement(t, o, false)
		require.Contains(t, out, want)
		require.Contains(t, out, "Models      conclave, conclave/reviewers\n")
		require.Contains(t, out, "MCP         http://127.0.0.1:8333/mcp\n")
		require.Contains(t, out, "curl http://127.0.0.1:8333/v1/chat/completions")
		require.Equal(t, o.Keys != nil, strings.Contains(out, "json' -H 'Authorization: Bearer KEY' \\\n"))
	}
	require.NotContains(t, announcement(t, Options{Teams: offered, ReadOnly: true}, false), "curl", "it would be refused")
	out := announcement(t, Options{Teams: offered[1:]}, false)
	require.Contains(t, out, `"model": "conclave/reviewers"`)
	var got announced
	require.NoError(t, json.Unmarshal([]byte(announcement(t, Options{Teams: offered}, true)), &got))
	require.Equal(t, announced{Address: "http://127.0.0.1:8333", Models: []string{"conclave", "conclave/reviewers"}, Offline: true}, got)
}

func announcement(t *testing.T, o Options, scripted bool) string {
	t.Helper()
	conn := callers.New(t).Connection(t)
	var out bytes.Buffer
	conn.Stdout, conn.JSON = &out, scripted
	require.NoError(t, announceServer(conn, &Server{Address: "http://127.0.0.1:8333"}, o, servedTeams{offline: true}))
	return out.String()
}

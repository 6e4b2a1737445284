package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ask sends a request through a gate whose server answers with the caller's name.
func ask(g *Gate, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	r.Host = "127.0.0.1:8333"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "caller "+From(r.Context()).Name)
	})).ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func TestGate_loopback(t *testing.T) {
	t.Parallel()
	g, err := New("127.0.0.1:8333", nil)
	require.NoError(t, err)
	require.True(t, g.Open())
	for name, tc := range map[string]struct {
		change func(*http.Request)
		status int
		says   string
	}{
		"a program":          {nil, 200, "caller "},
		"any key":            {header("Authorization", "Bearer whatever"), 200, "caller "},
		"localhost":          {host("localhost:8333"), 200, "caller "},
		"IPv6":               {host("[::1]:8333"), 200, "caller "},
		"its own page":       {header("Origin", "http://127.0.0.1:8333"), 200, "caller "},
		"a rebound name":     {host("evil.example:8333"), 403, "this server listens on loopback"},
		"another site":       {header("Origin", "https://evil.example"), 403, "a page of"},
		"another port":       {header("Origin", "http://127.0.0.1:9000"), 403, "a page of"},
		"a sandboxed page":   {header("Origin", "null"), 403, "a page of"},
		"a form elsewhere":   {header("Sec-Fetch-Site", "cross-site"), 403, "another site"},
		"a name like itself": {host("127.0.0.1.evil.example"), 403, "listens on loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(g, tc.change)
			require.Equal(t, tc.status, w.Code)
			require.Contains(t, w.Body.String(), tc.says)
		})
	}
}

func TestGate_keys(t *testing.T) {
	t.Parallel()
	key, line := NewKey(Caller{Name: "alice", PerMinute: 3})
	keys, err := LoadKeys(keysFile(t, line))
	require.NoError(t, err)
	g, err := New("0.0.0.0:8333", keys)
	require.NoError(t, err)
	require.False(t, g.Open())
	const none = "the request has no key; send one of this server's as `Authorization: Bearer KEY`, or as `x-api-key`"
	const unknown = "the key of the request is not one of this server's; `conclave serve key NAME` makes one for its file of keys"
	for _, refused := range []struct {
		why    string
		change func(*http.Request)
	}{
		{none, nil},
		{none, header("Authorization", "Basic !")},
		{none, header("Authorization", key)},
		{unknown, header("Authorization", "Bearer wrong")},
	} {
		w := ask(g, refused.change)
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.JSONEq(t, `{"error":{"message":"`+refused.why+`","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, w.Body.String())
		require.NotContains(t, w.Body.String(), "wrong", "a key is never repeated")
	}
	bearer := header("Authorization", "bearer "+key)
	require.Equal(t, "caller alice", ask(g, bearer).Body.String())
	browser := func(r *http.Request) { r.Host, r.URL.Path = "conclave.example", "/"; r.SetBasicAuth("anybody", key) }
	require.Equal(t, "caller alice", ask(g, browser).Body.String())

	page := ask(g, func(r *http.Request) { r.URL.Path = "/sessions/s1" })
	require.Equal(t, http.StatusUnauthorized, page.Code)
	require.Contains(t, page.Header().Get("WWW-Authenticate"), "Basic")
	require.True(t, strings.HasPrefix(page.Header().Get("Content-Type"), "text/plain"))
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:8333": "--keys", ":8333": "--keys", "example.com:80": "--keys", "8333": "HOST:PORT",
	} {
		_, err := New(listen, nil)
		require.ErrorContains(t, err, want)
	}
	for _, listen := range []string{"localhost:0", "[::1]:8333", "127.1.2.3:1"} {
		_, err := New(listen, nil)
		require.NoError(t, err)
	}
}

// gateOf returns a gate of keys on an address that others can reach.
func gateOf(t *testing.T, lines ...string) *Gate {
	t.Helper()
	keys, err := LoadKeys(keysFile(t, lines...))
	require.NoError(t, err)
	g, err := New("0.0.0.0:8333", keys)
	require.NoError(t, err)
	return g
}

// A caller may send its requests at once, and then one each time that its rate allows.
func TestGate_limit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, line := NewKey(Caller{Name: "alice", PerMinute: 3})
		other, otherLine := NewKey(Caller{Name: "bob", PerMinute: 1})
		free, freeLine := NewKey(Caller{Name: "ci"})
		g := gateOf(t, line, otherLine, freeLine)
		status := func(key string) int { return ask(g, header("Authorization", "Bearer "+key)).Code }
		for range 3 {
			require.Equal(t, http.StatusOK, status(key))
		}
		w := ask(g, header("Authorization", "Bearer "+key))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "5", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), "alice may send 3 requests a minute")
		require.Contains(t, w.Body.String(), `"type":"rate_limit_error"`)
		require.Equal(t, http.StatusOK, status(other), "a limit is that of one caller")
		for range 50 {
			require.Equal(t, http.StatusOK, status(free))
		}

		time.Sleep(19 * time.Second)
		require.Equal(t, http.StatusTooManyRequests, status(key))
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, status(key))
		require.Equal(t, http.StatusTooManyRequests, status(key))
		time.Sleep(time.Hour)
		for range 3 {
			require.Equal(t, http.StatusOK, status(key), "idle time saves up no more than a minute's requests")
		}
		require.Equal(t, http.StatusTooManyRequests, status(key))
	})
}

// A limit that is changed in the file counts from the next request.
func TestGate_limitChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, line := NewKey(Caller{Name: "alice", PerMinute: 1})
		g := gateOf(t, line)
		status := func() int { return ask(g, header("Authorization", "Bearer "+key)).Code }
		require.Equal(t, http.StatusOK, status())
		require.Equal(t, http.StatusTooManyRequests, status())
		rewrite(t, g.keys.file, strings.TrimSuffix(line, ":1")+":2", time.Unix(1, 0))
		require.Equal(t, http.StatusOK, status())
		require.Equal(t, http.StatusOK, status())
		require.Equal(t, http.StatusTooManyRequests, status())
		rewrite(t, g.keys.file, strings.TrimRight(strings.TrimSuffix(line, ":1"), ":"), time.Unix(2, 0))
		for range 10 {
			require.Equal(t, http.StatusOK, status())
		}
	})
}

// Requests that arrive together count as often as those that arrive in turn.
func TestGate_together(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, line := NewKey(Caller{Name: "alice", PerMinute: 5})
		g := gateOf(t, line)
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if ask(g, header("Authorization", "Bearer "+key)).Code == http.StatusOK {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 5, admitted.Load())
	})
}

func TestCheckOrigin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, origin, site string
		says                 string // empty if the request is admitted
	}{
		{http.MethodPost, "", "", ""},
		{http.MethodPost, "", "same-origin", ""},
		{http.MethodPost, "", "none", ""},
		{http.MethodGet, "", "cross-site", ""}, // a link of another site
		{http.MethodHead, "", "cross-site", ""},
		{http.MethodDelete, "", "cross-site", "a page of another site"},
		{http.MethodPost, "http://conclave.example:8333", "", ""},
		{http.MethodPost, "https://CONCLAVE.example:8333", "", ""}, // behind a proxy that ends TLS
		{http.MethodGet, "http://conclave.example", "", `"http://conclave.example"`},
		{http.MethodPost, "http://conclave.example:8333.evil.example", "", "not of this server"},
		{http.MethodPost, "http://evil.example/?conclave.example:8333", "", "not of this server"},
		{http.MethodPost, "conclave.example:8333", "", "not of this server"},
		{http.MethodPost, "null", "same-origin", `"null"`},
		{http.MethodPost, "http://%zz", "", "not of this server"},
	} {
		r := httptest.NewRequest(tc.method, "/v1/models", nil)
		r.Host = "conclave.example:8333"
		r.Header.Set("Origin", tc.origin)
		r.Header.Set("Sec-Fetch-Site", tc.site)
		err := checkOrigin(r)
		if tc.says == "" {
			require.NoError(t, err, "%+v", tc)
			continue
		}
		require.ErrorContains(t, err, tc.says, "%+v", tc)
	}
}

// A request that no gate has admitted has a caller without a name, who may ask every team.
func TestFrom_withoutGate(t *testing.T) {
	t.Parallel()
	c := From(t.Context())
	require.Zero(t, c)
	require.True(t, c.MayAsk("default"))
}

// Programs read refusals as they read errors of OpenAI; browsers read a line of text.
func TestRefusal(t *testing.T) {
	t.Parallel()
	key, line := NewKey(Caller{Name: "alice"})
	g := gateOf(t, line)
	for path, json := range map[string]bool{
		"/v1/models": true, "/v1/chat/completions": true, "/mcp": true, "/": false, "/v1": true, "/v10": false, "/sessions/v1/": false,
	} {
		w := ask(g, func(r *http.Request) { r.URL.Path = path })
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
		require.Contains(t, w.Header().Get("WWW-Authenticate"), "the key as password", path)
		require.Equal(t, json, w.Header().Get("Content-Type") == "application/json", path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		require.NotContains(t, w.Body.String(), key)
		require.Equal(t, "caller alice", ask(g, func(r *http.Request) { r.URL.Path = path; r.SetBasicAuth("", key) }).Body.String())
	}
}

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"error":{"message":"no \"x\"","type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
		string(ErrorJSON("invalid_request_error", "model_not_found", "model", `no "x"`)))
	require.JSONEq(t, `{"error":{"message":"","type":"server_error","param":null,"code":null}}`, string(ErrorJSON("server_error", "", "", "")))
}

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
)

// streamable serves the fake server over HTTP.
func streamable(kind string, options *sdk.StreamableHTTPOptions) http.Handler {
	server := tools(kind)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options)
}

func TestHTTP_runsCallsWithTheToken(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*sdk.StreamableHTTPOptions{"streams": {}, "JSON": {JSONResponse: true}, "stateless": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			tokens := make(map[string]bool)
			handler := streamable("ordinary", options)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				tokens[r.Header.Get("Authorization")] = true
				mu.Unlock()
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(web.Close)
			c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: web.URL + "/mcp", Token: "secret", CallTimeout: 5 * time.Second})

			require.Equal(t, "hello", run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text)
			require.Equal(t, "error: the disk is full", run(t, c, "mcp__web__fail", "{}").Text)
			require.Contains(t, run(t, c, "mcp__web__sleep", `{"ms": 6000}`).Text, "took longer than 5s")
			require.Equal(t, "hello", run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, map[string]bool{"Bearer secret": true}, tokens)
		})
	}
}

func TestHTTP_followsTheServersList(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(streamable("ordinary", nil))
	t.Cleanup(web.Close)
	c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: web.URL})
	run(t, c, "mcp__web__grow", "{}")
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(offered(c), " "), "mcp__web__grown") }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "I am new", run(t, c, "mcp__web__grown", "{}").Text)
}

func TestHTTP_sendsTheTokenToItsAddressOnly(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(true)
		http.Error(w, r.Header.Get("Authorization"), http.StatusTeapot)
	}))
	t.Cleanup(elsewhere.Close)
	web := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/mcp", http.StatusTemporaryRedirect))
	t.Cleanup(web.Close)
	_, err := mcp.Open(t.Context(), []mcp.Server{{Name: "web", URL: web.URL + "?key=hidden", Token: "secret"}}, mcp.Place{Dir: t.TempDir()})
	require.ErrorContains(t, err, "the server redirects to "+elsewhere.URL+"/mcp, which is not followed")
	require.NotContains(t, err.Error(), "hidden")
	require.False(t, leaked.Load())
}

func TestHTTP_namesAnAddressThatCannotBeConnected(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		_, err := mcp.Open(t.Context(), []mcp.Server{{Name: "web", URL: web.URL}}, mcp.Place{Dir: t.TempDir()})
		web.Close()
		require.ErrorContains(t, err, `connect MCP server "web": `)
		require.ErrorContains(t, err, want)
	}
	started := time.Now()
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		peek(r) // the end of the connection is noticed only after the body
		<-r.Context().Done()
	}))
	t.Cleanup(hung.Close)
	_, err := mcp.Open(t.Context(), []mcp.Server{{Name: "web", URL: hung.URL, StartTimeout: 300 * time.Millisecond}}, mcp.Place{Dir: t.TempDir()})
	require.ErrorContains(t, err, "it was not ready within 300ms")
	require.Less(t, time.Since(started), time.Minute)
}

// serveAt serves at a fixed address until the returned function is called.
func serveAt(t *testing.T, address string, handler http.Handler) (string, func()) {
	t.Helper()
	var listener net.Listener
	require.Eventually(t, func() bool {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	stop := func() { _ = server.Close() }
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

func TestHTTP_reconnectsARestartedServer(t *testing.T) {
	t.Parallel()
	address, stop := serveAt(t, "127.0.0.1:0", streamable("ordinary", nil))
	c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: "http://" + address})
	require.Equal(t, "hello", run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text)

	stop()
	got := run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text
	require.True(t, strings.HasPrefix(got, "error: "), got)
	require.Contains(t, got, `MCP server "web"`)

	serveAt(t, address, streamable("ordinary", nil))
	require.Contains(t, run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text, "hello\n[MCP server \"web\" was reconnected")
	require.Equal(t, "hello", run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text)
}

func TestHTTP_doesNotRepeatACallThatMayHaveRun(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	handler := streamable("ordinary", &sdk.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Name") == "count" || strings.Contains(peek(r), `"count"`) {
			calls.Add(1)
			hijacked, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = hijacked.Close()
			}
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: web.URL})
	got := run(t, c, "mcp__web__count", "{}").Text
	require.Contains(t, got, "Whether the call was carried out is not known")
	require.Contains(t, got, "The server was reconnected")
	require.Equal(t, int64(1), calls.Load())
}

// A server that has forgotten the session has not carried out the call.
func TestHTTP_repeatsACallRefusedForItsSession(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	handler := streamable("ordinary", nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(peek(r), `"tools/call"`) && calls.Add(1) == 1 {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: web.URL})
	require.Contains(t, run(t, c, "mcp__web__echo", `{"text": "hello"}`).Text, "hello\n[MCP server \"web\" was reconnected")
	require.Equal(t, int64(2), calls.Load())
}

// peek reads a request's body and puts it back.
func peek(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	var all json.RawMessage
	if json.NewDecoder(r.Body).Decode(&all) != nil {
		return ""
	}
	r.Body = http.NoBody
	if len(all) > 0 {
		r.Body = readCloser{strings.NewReader(string(all))}
	}
	return string(all)
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestHTTP_boundsAnEndlessResponse(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		handler := streamable("ordinary", &sdk.StreamableHTTPOptions{Stateless: true})
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(peek(r), `"tools/call"`) {
				handler.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", kind)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprintf(w, "data: %s", strings.Repeat(" ", 1<<20)); err != nil {
					return
				}
			}
		}))
		c := open(t, t.TempDir(), mcp.Server{Name: "web", URL: web.URL})
		got := run(t, c, "mcp__web__count", "{}").Text
		require.Contains(t, got, "error: ")
		require.Regexp(t, "longer than 32 MiB|exceeded 33554432 bytes", got)
		require.NoError(t, c.Close())
		web.Close()
	}
}

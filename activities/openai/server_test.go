package openai_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// wire is an HTTP server over pipes: real bytes in a synctest bubble, where waiting
// takes no time.
type wire struct {
	mu       sync.Mutex
	requests []recorded
}

// recorded is one received request.
type recorded struct {
	at     time.Time
	header http.Header
	body   string
}

func (w *wire) seen() []recorded {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve uses the handlers in turn, the last one repeatedly.
func serve(t *testing.T, o openai.Options, handlers ...http.HandlerFunc) (*openai.Client, *wire) {
	t.Helper()
	w := &wire{}
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		w.mu.Lock()
		n := len(w.requests)
		w.requests = append(w.requests, recorded{at: time.Now(), header: req.Header, body: string(body)})
		w.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		handlers[min(n, len(handlers)-1)](res, req)
	}))
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)

	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(transport.CloseIdleConnections)
	o.HTTPClient = &http.Client{Transport: transport}
	if o.BaseURL == "" {
		o.BaseURL = "http://models.test/v1"
	}
	if o.Model == "" {
		o.Model = "m1"
	}
	client, err := openai.New(o)
	require.NoError(t, err)
	return client, w
}

// rawFields responds with a status, headers ("Name", "value", …) and a body.
func rawFields(status int, body string, headers ...string) http.HandlerFunc {
	return func(res http.ResponseWriter, _ *http.Request) {
		res.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			res.Header().Set(headers[i], headers[i+1])
		}
		res.WriteHeader(status)
		_, _ = io.WriteString(res, body)
	}
}

// hangUp closes the connection in the middle of the response.
func hangUp(partial string) http.HandlerFunc {
	return func(res http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(res).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, partial)
		_ = conn.Close()
	}
}

const saysHi = `{"id":"1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",
	"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`

var hello = llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "hello"}}}

// over serves over TCP.
func over(t *testing.T, handler http.HandlerFunc) (baseURL string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// counting counts responses by status.
type counting struct {
	mu     sync.Mutex
	counts map[int]int
}

func (c *counting) client() *http.Client { return &http.Client{Transport: roundTripper(c.trip)} }

func (c *counting) trip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[int]int{}
	}
	c.counts[res.StatusCode]++
	return res, nil
}

func (c *counting) of(status int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[status]
}

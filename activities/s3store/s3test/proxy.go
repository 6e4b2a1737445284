package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type proxy struct {
	t       *testing.T
	decide  func(*http.Request) string
	forward http.Handler
	closing chan struct{}

	mu     sync.Mutex
	counts map[string]int
}

// NewProxy starts a proxy for the S3 server at target. It returns the proxy's URL and a function
// that counts the requests with a given fault. It calls decide, concurrently, to choose the fault
// of each request:
//
//	""             none: the request is forwarded, with its signature intact
//	"busy"         answered with 503 SlowDown
//	"silence"      read and never answered
//	"hang up"      the connection ends without a response
//	"lost answer"  forwarded, then the connection ends without a response
//	"half answer"  forwarded, then the connection ends within the response's body
func NewProxy(t *testing.T, target string, decide func(*http.Request) string) (address string, count func(fault string) int) {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	p := &proxy{t: t, decide: decide, closing: make(chan struct{}), counts: map[string]int{}}
	p.forward = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the host is signed
	}}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		close(p.closing)
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, func(fault string) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.counts[fault]
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.decide(r)
	p.mu.Lock()
	p.counts[fault]++
	p.mu.Unlock()
	switch fault {
	case "":
		p.forward.ServeHTTP(w, r)
	case "busy":
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	case "silence":
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
		select {
		case <-r.Context().Done():
		case <-p.closing:
		}
	case "hang up":
		hangUp(w)
	case "lost answer":
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w)
	case "half answer":
		p.cutShort(w, r)
	default:
		p.t.Errorf("s3test: unknown fault %q", fault)
	}
}

// cutShort declares the full length of the body but sends only half of it.
func (p *proxy) cutShort(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	p.forward.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	hangUp(w)
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

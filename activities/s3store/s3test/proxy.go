// Package s3test gives tests of this package and the e2e tests a MinIO server, as a
// process of its own, and a proxy with the faults of networks and servers.
//
// MinIO, which is under the AGPL, is run and never linked; minio.go has the build
// tag e2e.
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

// Fault is the fate of a request on its way.
type Fault string

// The faults.
const (
	None       Fault = ""            // forwarded
	Busy       Fault = "busy"        // answered with 503 SlowDown
	Silence    Fault = "silence"     // read and never answered
	HangUp     Fault = "hang up"     // the connection ends without a response
	LostAnswer Fault = "lost answer" // forwarded, then the connection ends without a response
	HalfAnswer Fault = "half answer" // the connection ends within the response's body
)

// Proxy forwards requests to an S3 server, or fails them.
type Proxy struct {
	URL string

	decide  func(*http.Request) Fault
	forward http.Handler
	closing chan struct{}

	mu     sync.Mutex
	counts map[Fault]int
}

// NewProxy starts a proxy for the server at target. It calls decide, concurrently,
// for the fault of each request. Signatures stay valid.
func NewProxy(t *testing.T, target string, decide func(*http.Request) Fault) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	p := &Proxy{decide: decide, closing: make(chan struct{}), counts: map[Fault]int{}}
	p.forward = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	server := httptest.NewServer(p)
	p.URL = server.URL
	t.Cleanup(func() {
		close(p.closing)
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// Count returns the number of requests with a fault.
func (p *Proxy) Count(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[f]
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.decide(r)
	p.mu.Lock()
	p.counts[fault]++
	p.mu.Unlock()
	switch fault {
	case None:
		p.forward.ServeHTTP(w, r)
	case Busy:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	case Silence:
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
		select {
		case <-r.Context().Done():
		case <-p.closing:
		}
	case HangUp:
		hangUp(w)
	case LostAnswer:
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w)
	case HalfAnswer:
		p.cutShort(w, r)
	}
}

// cutShort declares the length of the body and sends half of it.
func (p *Proxy) cutShort(w http.ResponseWriter, r *http.Request) {
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

// Package s3test gives tests an S3 server of another make, as a process of its
// own, and a proxy that fails in the ways in which networks and servers do.
//
// It is for tests only. MinIO, which is under the AGPL, is run and never linked;
// the part that runs it has the build tag e2e.
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



// Fault is what happens to a request on its way.
type Fault string

// The faults.
const (
	None       Fault = ""            // it is forwarded
	Busy       Fault = "busy"        // answered with 503 SlowDown
	Silence    Fault = "silence"     // taken and never answered
	HangUp     Fault = "hang up"     // the connection ends without an answer
	LostAnswer Fault = "lost answer" // it is carried out, and then the connection ends without an answer
	HalfAnswer Fault = "half answer" // the connection ends within the answer's body
)

// Proxy stands before an S3 server and forwards or fails.
type Proxy struct {
	URL string

	decide  func(*http.Request) Fault
	forward http.Handler
	closing chan struct{}

	mu     sync.Mutex
	counts map[Fault]int
}

// NewProxy forwards to the server at the URL target what decide, which may be
// called from several goroutines, has no fault for. Signatures stay valid.
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

// Count is how many requests had the fault.
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
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection goes unseen
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

// cutShort promises the whole body and sends half of it.
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

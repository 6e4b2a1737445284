//go:build bench

package bench

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// traffic is the requests and bytes between a client and the store.
type traffic struct {
	requests map[string]int // by kind: GET, PUT, COPY, …
	up, down int64          // bytes of bodies
}

// since is the traffic after t.
func (now traffic) since(t traffic) traffic {
	d := traffic{requests: map[string]int{}, up: now.up - t.up, down: now.down - t.down}
	for kind, n := range now.requests {
		d.requests[kind] = n - t.requests[kind]
	}
	return d
}

// all is the number of requests of every kind.
func (now traffic) all() int {
	all := 0
	for _, n := range now.requests {
		all += n
	}
	return all
}

// countingProxy passes requests on and counts them.
type countingProxy struct {
	*httptest.Server
	forward http.Handler

	mu   sync.Mutex
	seen traffic
}

func newCountingProxy(b *testing.B, endpoint string) *countingProxy {
	b.Helper()
	store, err := url.Parse(endpoint)
	require.NoError(b, err)
	c := &countingProxy{seen: traffic{requests: map[string]int{}}}
	c.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(store)
			// The signature covers the host name that the client uses.
			r.Out.Host = r.In.Host
		},
		// The proxy keeps connections, as the client does.
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
	c.Server = httptest.NewServer(c)
	b.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *countingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.seen.requests[kind(r)]++
	c.mu.Unlock()
	if r.Body != http.NoBody {
		r.Body = upload{ReadCloser: r.Body, proxy: c}
	}
	c.forward.ServeHTTP(download{ResponseWriter: w, proxy: c}, r)
}

// kind is the method of a request, except for copies, which transfer no content, and
// for listings.
func kind(r *http.Request) string {
	switch {
	case r.Header.Get("X-Amz-Copy-Source") != "":
		return "COPY"
	case r.URL.Query().Has("list-type"):
		return "LIST"
	}
	return r.Method
}

// traffic is the traffic so far.
func (c *countingProxy) traffic() traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.seen
	t.requests = maps.Clone(t.requests)
	return t
}

func (c *countingProxy) passed(up, down int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.up += int64(up)
	c.seen.down += int64(down)
}

// upload counts the body of a request.
type upload struct {
	io.ReadCloser
	proxy *countingProxy
}

func (u upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.proxy.passed(n, 0)
	return n, err
}

// download counts the body of an answer.
type download struct {
	http.ResponseWriter
	proxy *countingProxy
}

func (d download) Write(p []byte) (int, error) {
	d.proxy.passed(0, len(p)) // before the client can have it
	return d.ResponseWriter.Write(p)
}

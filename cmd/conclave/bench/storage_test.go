//go:build bench

package bench

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkStorage counts what a session asks of the S3 store, with a proxy
// between a worker and the store.
func BenchmarkStorage(b *testing.B) {
	const queue = "counted"
	m := newModelServer(b, threeRounds, 0)
	s := newStack(b, m)
	store := newCountingProxy(b, s.S3Endpoint)
	s.background([]string{
		"AWS_ENDPOINT_URL_S3=" + store.URL, "AWS_REGION=" + s.S3Region,
		"AWS_ACCESS_KEY_ID=" + s.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.S3SecretKey,
	}, "worker", "--address", s.TemporalAddress, "--task-queue", queue, "--bucket", s.Bucket, "--config", s.file("team.yaml", m.team()))
	s.awaitWorker(queue)

	var requests samples
	for b.Loop() {
		before := store.requests.Load()
		s.session(queue)
		requests.add(float64(store.requests.Load()-before) / steps)
	}
	b.ReportMetric(requests.median(), "requests/step")
}

// countingProxy passes requests on and counts them.
type countingProxy struct {
	*httptest.Server
	requests atomic.Int64
}

func newCountingProxy(b *testing.B, endpoint string) *countingProxy {
	b.Helper()
	store, err := url.Parse(endpoint)
	require.NoError(b, err)
	c := &countingProxy{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(store)
		// The signature is over the name by which the client knows the store.
		r.Out.Host = r.In.Host
	}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	b.Cleanup(c.Close)
	return c
}

package worker

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// listener carries the requests to a provider, counts them, and hears when the
// server asks one of them to wait: that is meant for all.
type listener struct {
	next  http.RoundTripper
	queue *queue
}

// connections is how many are kept open for the next calls.
const connections = 256

func newListener(q *queue) listener { return listener{next: newTransport(), queue: q} }

// newTransport is the standard one with more connections.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	return t
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(req *http.Request) (*http.Response, error) {
	if n, ok := req.Context().Value(sent{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	res, err := l.next.RoundTrip(req)
	if err == nil && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		if d := wish(res.Header, time.Now()); d > 0 {
			l.queue.close(d)
		}
	}
	return res, err
}

// wish is how long a server asks to be left alone; 0 if it does not say.
func wish(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, longestWait.Seconds()*1000) * float64(time.Millisecond))
	}
	after := header.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil && s > 0 {
		return time.Duration(min(s, longestWait.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(after); err == nil {
		return at.Sub(now)
	}
	return 0
}

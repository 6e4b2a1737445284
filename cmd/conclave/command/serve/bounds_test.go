package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	net.Listener
	accepted chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p.accepted
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error { close(p.accepted); return nil }

func dial(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	l := pipes{accepted: make(chan net.Conn, 1)}
	server := boundedServer(handler)
	done := make(chan error)
	go func() { done <- server.Serve(boundedListener{l}) }()
	client, served := net.Pipe()
	l.accepted <- served
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return client
}

// A client that sends its request slowly or incompletely is disconnected, whether the handler reads
// the body or has refused the request.
func TestBounded_slowRequests(t *testing.T) {
	t.Parallel()
	reads := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	const sized = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
	for name, tc := range map[string]struct {
		handler     http.HandlerFunc
		begin, drip string
		within      time.Duration
	}{
		"nothing":                {refuses, "", "", headerTime},
		"endless headers":        {refuses, "GET / HTTP/1.1\r\nHost: x\r\n", "X-A: b\r\n", headerTime},
		"no body":                {reads, sized, "", bodyTime},
		"a slow body":            {reads, sized, "x", bodyTime},
		"a slow body, refused":   {refuses, sized, "x", bodyTime},
		"endless parts, refused": {refuses, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", bodyTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn, began := dial(t, tc.handler), time.Now()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, err := io.WriteString(conn, tc.begin)
				for err == nil && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
					_, err = io.WriteString(conn, tc.drip) // a closed pipe refuses an empty string, too
				}
				require.ErrorIs(t, err, io.ErrClosedPipe)
				require.LessOrEqual(t, time.Since(began), tc.within+2*time.Second)
			})
		})
	}
}

// A request that has arrived may be answered after hours.
func TestBounded_slowReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
				t.Error("the request was given up")
			case <-time.After(2 * time.Hour):
			}
			_, _ = w.Write(data)
			if err != nil {
				t.Error(err)
			}
		})
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nTabs?")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "Tabs?", string(data))
	})
}

// A client that stops reading is disconnected; one that reads slowly gets the whole reply.
func TestBounded_slowReaders(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long answer ", 1<<16)
	for name, pause := range map[string]time.Duration{"slow": 20 * time.Second, "stopped": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := dial(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) })
				_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				require.NoError(t, err)
				read := 0
				for part := make([]byte, maxPart); err == nil; {
					var n int
					n, err = io.ReadFull(conn, part)
					read += n
					time.Sleep(pause)
				}
				require.Equal(t, pause < writeTime, read > len(long))
			})
		})
	}
}

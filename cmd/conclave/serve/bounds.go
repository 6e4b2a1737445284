package serve

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Limits of connections. A reply may take hours, so only its parts have deadlines.
const (
	headerTime = 10 * time.Second
	bodyTime   = 30 * time.Second // time in which the body of a request must arrive
	writeTime  = 30 * time.Second // time in which a client must take a part of a reply
	idleTime   = 2 * time.Minute
	maxHeaders = 64 << 10 // most bytes of headers
	maxPart    = 64 << 10 // bytes of a reply
)

// bounded returns a server with limits on slow clients.
func bounded(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: boundedBody(handler), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders,
	}
}

// boundedBody breaks connections whose request body does not arrive in time, even if the
// handler replied without reading it.
func boundedBody(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // recorders of tests have no deadlines
			r.Body = body{r.Body, func() { _ = control.SetReadDeadline(time.Time{}) }}
		}
		handler.ServeHTTP(w, r)
	})
}

// body is a request body with a read deadline, which is removed at its end.
type body struct {
	io.ReadCloser
	arrived func()
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.arrived()
	}
	return n, err
}

// boundedListener is a listener whose connections break if a client stops reading.
type boundedListener struct{ net.Listener }

func (l boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return boundedConn{conn}, nil
}

// boundedConn is a connection with a deadline for each part that it writes.
type boundedConn struct{ net.Conn }

func (c boundedConn) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		if err = c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			break
		}
		var n int
		n, err = c.Conn.Write(p[written:min(len(p), written+maxPart)])
		written += n
	}
	return written, err
}

// CloseWrite allows net/http to close a connection without losing the reply to a request
// whose body has not fully arrived.
func (c boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

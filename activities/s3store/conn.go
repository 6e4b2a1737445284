package s3store

import (
	"context"
	"net"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	// maxSilence is the time without a byte after which a connection is considered dead. A server
	// may be silent during a copy.
	maxSilence = 30 * time.Second
)

// dialer makes connections that fail after a period of silence. A limit for whole requests would
// have to suit a small document as well as 2 GiB.
func dialer(silence time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: connectTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &timeoutConn{Conn: c, silence: silence}, nil
	}
}

// timeoutConn is a connection whose reads and writes fail after a period of silence.
type timeoutConn struct {
	net.Conn
	silence time.Duration
}

func (c *timeoutConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also extends the read deadline, because net/http waits for the response while it sends the
// request.
func (c *timeoutConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.silence))
	}
	return n, err
}

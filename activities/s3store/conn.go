package s3store

import (
	"context"
	"net"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	// maxSilence is the time without a byte, such as during a server-side copy, after which a connection
	// is dead.
	maxSilence = 30 * time.Second
)

// dialer makes connections that fail after a time of silence: a limit for whole requests would have to
// fit a document and 2 GiB.
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

// timeoutConn fails reads and writes after a time of silence.
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

// Write extends the deadline of reads as well: net/http reads the response while it sends.
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

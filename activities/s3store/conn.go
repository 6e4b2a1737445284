package s3store

import (
	"context"
	"net"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	// maxSilence is how long a connection may move no byte in either direction
	// before it counts as dead. It bounds a server-side copy too, during which
	// some stores say nothing.
	maxSilence = 30 * time.Second
)

// dialer makes connections that end when they have been silent for too long. A
// store that takes a request and never answers would hold its caller for ever;
// a limit for whole requests would have to suit a document and 2 GiB.
func dialer(silence time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: connectTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &talkingConn{Conn: c, silence: silence}, nil
	}
}

// talkingConn fails a read or a write when nothing has moved for too long.
type talkingConn struct {
	net.Conn
	silence time.Duration
}

func (c *talkingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write counts for the reader, too: net/http waits for an answer all the while
// it sends.
func (c *talkingConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.silence))
	}
	return n, err
}

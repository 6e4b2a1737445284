package openai

import (
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Equal failures of two connections have equal texts, although their local ports differ.
func TestWithoutSource(t *testing.T) {
	t.Parallel()
	at := func(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	read := &net.OpError{Op: "read", Net: "tcp", Source: at(33156), Addr: at(80), Err: syscall.ECONNRESET}
	require.Equal(t, "read tcp 127.0.0.1:80: connection reset by peer", withoutSource(read))
	require.Equal(t, `Post "/": read tcp 127.0.0.1:80: connection reset by peer`, withoutSource(&url.Error{Op: "Post", URL: "/", Err: read}))
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: at(80), Err: syscall.ECONNREFUSED}
	require.Equal(t, dial.Error(), withoutSource(dial))
}

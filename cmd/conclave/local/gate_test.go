package local

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reports records the messages of a gate.
type reports struct {
	mu      sync.Mutex
	refused []uint32
	failed  []error
}

func (r *reports) reports() Reports {
	return Reports{
		Refused: func(uid uint32) { r.mu.Lock(); defer r.mu.Unlock(); r.refused = append(r.refused, uid) },
		Failed:  func(err error) { r.mu.Lock(); defer r.mu.Unlock(); r.failed = append(r.failed, err) },
	}
}

// listenLocally returns a listener on loopback behind a gate whose owner is replaced unless
// find is nil.
func listenLocally(t *testing.T, find owner) (net.Listener, *reports) {
	t.Helper()
	r := &reports{}
	gate, err := NewGate(r.reports())
	require.NoError(t, err)
	if find != nil {
		gate.owner = find
	}
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = inner.Close() })
	return gate.Listener(inner), r
}

func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "welcome\n")
		_ = conn.Close()
	}
}

// knock connects and returns the answer. A listener may refuse a connection before Dial
// has returned.
func knock(t *testing.T, network, address string) (string, error) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if errors.Is(err, syscall.ECONNRESET) {
		return "", err
	}
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestListener_admitsItsOwnUser(t *testing.T) {
	t.Parallel()
	l, r := listenLocally(t, nil)
	go greet(l)
	for range 3 {
		answer, err := knock(t, "tcp4", l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, "welcome\n", answer)
	}
	require.Empty(t, r.refused)
	require.Empty(t, r.failed)
}

// The connections of one listener have different owners; each cause is reported once.
func TestListener_admitsThisUserAndRootAlone(t *testing.T) {
	t.Parallel()
	const self, root, other, third = 1000, 0, 1001, 1002
	failure := errors.New("the table cannot be read")
	type owned struct {
		uid uint32
		err error
	}
	next := make(chan owned, 1)
	l, r := listenLocally(t, func(*net.TCPConn) (uint32, error) { o := <-next; return o.uid, o.err })
	l.(*listener).gate.self = self
	go greet(l)
	for _, c := range []struct {
		uid      uint32
		err      error
		admitted bool
		refused  []uint32
		failed   []error
	}{
		{uid: self, admitted: true},
		{uid: root, admitted: true},
		{uid: other, refused: []uint32{other}},
		{uid: other, refused: []uint32{other}},
		{uid: third, refused: []uint32{other, third}},
		{uid: self, err: errGone, refused: []uint32{other, third}},
		{uid: self, err: failure, refused: []uint32{other, third}, failed: []error{failure}},
		{uid: self, err: failure, refused: []uint32{other, third}, failed: []error{failure}},
		{uid: self, admitted: true, refused: []uint32{other, third}, failed: []error{failure}},
	} {
		next <- owned{c.uid, c.err}
		answer, err := knock(t, "tcp4", l.Addr().String())
		if c.admitted {
			require.NoError(t, err)
			require.Equal(t, "welcome\n", answer)
		} else {
			require.Error(t, err, "the connection is reset")
			require.Empty(t, answer)
		}
		r.mu.Lock()
		require.Equal(t, c.refused, r.refused)
		require.Equal(t, c.failed, r.failed)
		r.mu.Unlock()
	}
}

func TestListener_closes(t *testing.T) {
	t.Parallel()
	l, _ := listenLocally(t, nil)
	require.NoError(t, l.Close())
	_, err := l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

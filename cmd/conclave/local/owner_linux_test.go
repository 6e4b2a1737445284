package local

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nobody is a user without rights.
const nobodyID = 65534

// as runs f in a thread with the file-system user of another user, which owns the
// sockets that f makes.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		f()
	}()
	<-done
}

func dial(t *testing.T, family int, address netip.AddrPort, source uint16) (fd int, ok bool) {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return 0, false
	}
	var to, from unix.Sockaddr = &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}, &unix.SockaddrInet4{Port: int(source), Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: int(address.Port()), Addr: netip.AddrFrom16(address.Addr().As16()).As16()}
	}
	if source != 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err := unix.Bind(fd, from); err != nil {
			_ = unix.Close(fd)
			return 0, false
		}
	}
	if err := unix.Connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return 0, false
	}
	return fd, true
}

func addressOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

func reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(fd)
}

func TestOwner_ofAnotherUser(t *testing.T) {
	t.Parallel()
	for name, family := range map[string]int{"IPv4 socket": unix.AF_INET, "IPv6 socket": unix.AF_INET6} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		for _, uid := range []int{nobodyID, 0} {
			as(t, uid, func() {
				fd, ok := dial(t, family, addressOf(l), 0)
				if !ok {
					t.Error("connect with an", name)
					return
				}
				defer func() { _ = unix.Close(fd) }()
				conn, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				found, err := findOwner(conn.(*net.TCPConn))
				if err != nil || found != uint32(uid) {
					t.Errorf("%s of user %d: found user %d, error %v", name, uid, found, err)
				}
			})
		}
		_ = l.Close()
	}
}

// The kernel reports a socket that its process has closed as one of root, so that a
// request could arrive, and its sender be gone, before the search.
func TestOwner_ofAClosedConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(fd int){"closed": func(fd int) { _ = unix.Close(fd) }, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = l.Close() }()
			as(t, nobodyID, func() {
				fd, ok := dial(t, unix.AF_INET, addressOf(l), 0)
				if !ok {
					t.Error("connect")
					return
				}
				_, _ = unix.Write(fd, []byte("DELETE / HTTP/1.1\r\n\r\n"))
				end(fd)
			})
			conn, err := l.Accept()
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = findOwner(conn.(*net.TCPConn))
			require.ErrorIs(t, err, errGone)
		})
	}
}

// The other end of a forwarded connection is on another machine; here it is gone from
// the kernel's tables, but has not closed the connection.
func TestOwner_thatIsUnknown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp4", l.Addr().String())
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	lost := func(local, _ netip.AddrPort) (socket, error) {
		return findSocket(local, netip.MustParseAddrPort("127.0.0.2:1"))
	}
	_, err = findLiveOwner(conn.(*net.TCPConn), lost)
	require.ErrorIs(t, err, errUnknown)
	require.ErrorContains(t, err, client.LocalAddr().String())
	require.NoError(t, client.(*net.TCPConn).SetLinger(0))
	require.NoError(t, client.Close())
	_, err = findLiveOwner(conn.(*net.TCPConn), lost)
	require.ErrorIs(t, err, errGone)
}

func TestOwner_ofAHalfClosedConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp4", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	require.NoError(t, client.(*net.TCPConn).CloseWrite())
	conn, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	uid, err := findOwner(conn.(*net.TCPConn))
	require.NoError(t, err, "it still reads the reply")
	require.EqualValues(t, os.Geteuid(), uid)
}

// Another user connects, sends and resets; then the server's own user connects from the same port
// before the server accepts the first connection.
func TestOwner_ofAPortUsedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	source := freePort(t)
	as(t, nobodyID, func() {
		fd, ok := dial(t, unix.AF_INET, addressOf(l), source)
		if !ok {
			t.Error("connect")
			return
		}
		_, _ = unix.Write(fd, []byte("evil"))
		reset(fd)
	})
	fd, ok := dial(t, unix.AF_INET, addressOf(l), source)
	require.True(t, ok)
	defer func() { _ = unix.Close(fd) }()

	first, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = first.Close() }()
	_, err = findOwner(first.(*net.TCPConn))
	require.ErrorIs(t, err, errGone)
	second, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = second.Close() }()
	uid, err := findOwner(second.(*net.TCPConn))
	require.NoError(t, err)
	require.EqualValues(t, 0, uid)
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return addressOf(l).Port()
}

// Other users connect, send, and close or reset at once from a few ports, and the server's user
// connects from the same ports. No byte of another user is ever read.
func TestListener_underARace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	l, r := listenLocally(t, nil)
	var strangers, friends atomic.Int64
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var one [1]byte
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n, _ := conn.Read(one[:]); n == 1 && one[0] == 'x' {
				strangers.Add(1)
			} else if n == 1 {
				friends.Add(1)
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // keeps the port usable
			_ = conn.Close()
		}
	})
	first, until := freePort(t), time.Now().Add(2*time.Second)
	var clients sync.WaitGroup
	client := func(uid int, letter byte, end func(fd int)) {
		clients.Go(func() {
			as(t, uid, func() {
				for i := uint16(0); time.Now().Before(until); i++ {
					fd, ok := dial(t, unix.AF_INET, addressOf(l), first+i%8)
					if !ok {
						continue
					}
					_, _ = unix.Write(fd, []byte{letter})
					end(fd)
				}
			})
		})
	}
	for range 2 {
		client(nobodyID, 'x', reset)
		client(nobodyID, 'x', func(fd int) { _ = unix.Close(fd) })
		client(0, 'f', func(fd int) {
			_, _ = unix.Read(fd, make([]byte, 1)) // until the server has closed
			_ = unix.Close(fd)
		})
	}
	clients.Wait()
	require.NoError(t, l.Close())
	served.Wait()
	require.Zero(t, strangers.Load())
	require.Positive(t, friends.Load())
	require.Empty(t, r.failed)
	t.Logf("%d connections of the server's user", friends.Load())
}

// BenchmarkOwner measures the check of one connection, and for comparison a connection
// without it.
func BenchmarkOwner(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = l.Close() }()
	var clients []net.Conn
	defer func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	connect := func() *net.TCPConn {
		client, err := net.Dial("tcp4", l.Addr().String())
		require.NoError(b, err)
		conn, err := l.Accept()
		require.NoError(b, err)
		clients = append(clients, client, conn)
		return conn.(*net.TCPConn)
	}
	conn := connect()
	b.Run("owner", func(b *testing.B) {
		for b.Loop() {
			_, err := findOwner(conn)
			require.NoError(b, err)
		}
	})
	b.Run("connection", func(b *testing.B) {
		for b.Loop() {
			client, err := net.Dial("tcp4", l.Addr().String())
			require.NoError(b, err)
			conn, err := l.Accept()
			require.NoError(b, err)
			_ = client.Close()
			_ = conn.Close()
		}
	})
}

package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
)

var (
	// errGone reports that the other end of a connection has already closed, so its
	// owner is unknown.
	errGone = errors.New("the other end has closed")
	// errUnknown reports that the other end of a connection is not a socket in this
	// network namespace. It may have been forwarded from another machine.
	errUnknown = errors.New("no process of this machine is known to have its other end")
)

// Gate admits connections of this process's user and of root.
type Gate struct {
	self    uint32
	owner   owner
	refused func(uid uint32)
	failed  func(error)

	mu     sync.Mutex
	logged map[uint32]bool
	broken bool // whether failed was called
}

// owner returns the user who owns the other end of an accepted connection, or
// errGone or errUnknown.
type owner func(*net.TCPConn) (uid uint32, err error)

// Reports are the functions that a Gate calls to report refusals and failures, at most once for
// each cause.
type Reports struct {
	Refused func(uid uint32) // reports the first refusal of a user
	Failed  func(error)      // reports the first connection whose user could not be determined
}

// New returns a gate, or an error if this system cannot distinguish users. It tests
// this on a connection to itself.
func New(r Reports) (*Gate, error) {
	g := &Gate{self: uint32(os.Geteuid()), refused: r.Refused, failed: r.Failed, logged: map[uint32]bool{}}
	if err := distinct(g.self); err != nil {
		return nil, fmt.Errorf("tell users of local connections apart: %w", err)
	}
	var problems []error
	for _, candidate := range owners() {
		uid, err := tryOwner(candidate)
		if err == nil && uid != g.self {
			err = fmt.Errorf("a connection of user %d seems to be of user %d", g.self, uid)
		}
		if err == nil {
			g.owner = candidate
			return g, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("tell users of local connections apart: %w", errors.Join(problems...))
}

// ForThisUser limits a TCP listener to this user and root, and warns of refused connections. If this
// system cannot distinguish users, it closes the listener and returns an error with the remedy.
func ForThisUser(l net.Listener, warn func(format string, args ...any), remedy string) (net.Listener, error) {
	gate, err := New(Reports{
		Refused: func(uid uint32) {
			warn("refused a connection of user %d of this machine; to admit others, %s", uid, remedy)
		},
		Failed: func(err error) { warn("refused a connection whose user is unknown: %v", err) },
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep other users of this machine out: %w; %s", err, remedy), l.Close())
	}
	return gate.Listener(l), nil
}

// tryOwner returns the owner of a connection from this process to itself.
func tryOwner(find owner) (uint32, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	accepted, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer func() { _ = accepted.Close() }()
	return find(accepted.(*net.TCPConn))
}

// Listener returns a listener on l, a TCP listener, that accepts admitted
// connections and resets all others.
func (g *Gate) Listener(l net.Listener) net.Listener { return &listener{Listener: l, gate: g} }

type listener struct {
	net.Listener
	gate *Gate
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp := conn.(*net.TCPConn)
		if l.gate.admits(tcp) {
			return tcp, nil
		}
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

// admits reports whether the other end belongs to this user or to root.
func (g *Gate) admits(conn *net.TCPConn) bool {
	uid, err := g.owner(conn)
	if err == nil && (uid == g.self || uid == 0) {
		return true
	}
	g.report(uid, err)
	return false
}

// report reports the first refusal of each user and the first failure. It ignores a
// client that has already closed its connection.
func (g *Gate) report(uid uint32, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case errors.Is(err, errGone):
	case err != nil && !g.broken:
		g.broken = true
		g.failed(err)
	case err == nil && !g.logged[uid]:
		g.logged[uid] = true
		g.refused(uid)
	}
}

// missing returns the error for a connection whose other end was not found.
func missing(conn *net.TCPConn) error {
	if err := connected(conn); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", conn.RemoteAddr(), errUnknown)
}

// addresses returns the addresses of a connection, with IPv4-mapped addresses unmapped.
func addresses(conn *net.TCPConn) (local, remote netip.AddrPort) {
	unmapped := func(a net.Addr) netip.AddrPort {
		ap := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	}
	return unmapped(conn.LocalAddr()), unmapped(conn.RemoteAddr())
}

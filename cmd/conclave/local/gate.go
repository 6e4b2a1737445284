package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
)

var (
	// errGone reports that the other end of a connection has already closed, so its owner is unknown.
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

// owner returns the user who owns the other end of an accepted connection, or errGone or errUnknown.
type owner func(*net.TCPConn) (uid uint32, err error)

// Reports are the functions that a Gate calls to report refusals and failures, at most once for each cause.
type Reports struct {
	Refused func(uid uint32) // reports the first refusal of a user
	Failed  func(error)      // reports the first connection whose user could not be determined
}

// NewGate returns a gate, or an error if this system cannot distinguish users. It tests
// this on a connection to itself.
func NewGate(r Reports) (*Gate, error) {
	g := &Gate{self: uint32(os.Geteuid()), owner: findOwner, refused: r.Refused, failed: r.Failed, logged: map[uint32]bool{}}
	if err := requireDistinctUser(g.self); err != nil {
		return nil, fmt.Errorf("tell users of local connections apart: %w", err)
	}
	uid, err := findOwnUser()
	if err == nil && uid != g.self {
		err = fmt.Errorf("a connection of user %d seems to be of user %d", g.self, uid)
	}
	if err != nil {
		return nil, fmt.Errorf("tell users of local connections apart: %w", err)
	}
	return g, nil
}

// ForThisUser limits a TCP listener to this user and root, and warns of refused connections. If this
// system cannot distinguish users, it closes the listener and returns an error with the remedy.
func ForThisUser(l net.Listener, warn func(format string, args ...any), remedy string) (net.Listener, error) {
	gate, err := NewGate(Reports{
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

// findOwnUser returns the owner of a connection from this process to itself.
func findOwnUser() (uint32, error) {
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
	return findOwner(accepted.(*net.TCPConn))
}

// Listener returns a listener on l, a TCP listener, that accepts admitted connections and resets all others.
func (g *Gate) Listener(l net.Listener) net.Listener { return &listener{Listener: l, gate: g} }

type listener struct {
	net.Listener
	gate *Gate
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp := conn.(*net.TCPConn)
		if l.gate.admitsOwner(tcp) {
			return tcp, nil
		}
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

func (g *Gate) admitsOwner(conn *net.TCPConn) bool {
	uid, err := g.owner(conn)
	if err == nil && (uid == g.self || uid == 0) {
		return true
	}
	g.reportRefusal(uid, err)
	return false
}

// reportRefusal reports the first refusal of each user and the first failure. It ignores a
// client that has already closed its connection.
func (g *Gate) reportRefusal(uid uint32, err error) {
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

func missingOwner(conn *net.TCPConn) error {
	if err := requireConnected(conn); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", conn.RemoteAddr(), errUnknown)
}

// bothAddresses returns the addresses of a connection, with IPv4-mapped addresses unmapped.
func bothAddresses(conn *net.TCPConn) (local, remote netip.AddrPort) {
	unmapped := func(a net.Addr) netip.AddrPort {
		ap := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	}
	return unmapped(conn.LocalAddr()), unmapped(conn.RemoteAddr())
}

// The kinds of records in the connection table of macOS (xnu, in_pcblist.c). Each
// connection has a record with its addresses, then one with its socket, then others.
const (
	kindSocket    = 0x001 // kind of struct xsocket_n
	kindAddresses = 0x010 // kind of struct xinpcb_n
)

// Byte offsets of fields in the records.
const (
	recordLength = 0
	recordKind   = 4

	foreignPort    = 16
	localPort      = 18
	versionFlags   = 44
	foreignAddress = 48 // 16 bytes; an IPv4 address is in the last 4
	localAddress   = 64
	addressesSize  = 80

	socketUID  = 64
	socketSize = 68
)

// versionIPv4 is the flag of an IPv4 connection. An IPv6 socket can have one, too.
const versionIPv4 = 1

// findRecord returns the owner of the socket with these addresses in a table of macOS.
// Records are aligned to 8 bytes and begin with their length; the first is a header.
func findRecord(table []byte, local, remote netip.AddrPort) (uid uint32, found bool) {
	matches := false
	for offset := 0; offset+recordKind+4 <= len(table); {
		record := table[offset:]
		length := int(binary.NativeEndian.Uint32(record[recordLength:]))
		if length < recordKind+4 || length > len(record) {
			return 0, false
		}
		record = record[:length]
		switch kind := binary.NativeEndian.Uint32(record[recordKind:]); {
		case offset == 0: // the header of the table
		case kind == kindAddresses && length >= addressesSize:
			matches = recordAddresses(record, local, remote)
		case kind == kindSocket && length >= socketSize && matches:
			return binary.NativeEndian.Uint32(record[socketUID:]), true
		}
		offset += (length + 7) &^ 7
	}
	return 0, false
}

func recordAddresses(record []byte, local, remote netip.AddrPort) bool {
	at := func(address, port int) netip.AddrPort {
		ip := netip.AddrFrom16([16]byte(record[address : address+16]))
		if record[versionFlags]&versionIPv4 != 0 {
			ip = netip.AddrFrom4([4]byte(record[address+12 : address+16]))
		}
		return netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(record[port:]))
	}
	return at(localAddress, localPort) == local && at(foreignAddress, foreignPort) == remote
}

package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of TCP sockets.
const (
	established = 1
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8
)

// owners returns the ways to find the owner of a connection, in order of preference.
// The kernel's socket diagnostics find one socket in microseconds; the tables in /proc
// must be read in full.
func owners() []owner {
	diagnostics := &diagnostics{}
	return []owner{live(diagnostics.find), live(findInTables)}
}

// find returns the socket with these addresses, seen from its own end, or
// errUnknown.
type find func(local, remote netip.AddrPort) (socket, error)

// socket is the state of the other end.
type socket struct {
	uid, inode uint32
	state      uint8
}

// live returns an owner function that uses find.
//
// A socket that its process has closed counts as gone, because the kernel reports
// orphans and sockets in TIME_WAIT as owned by root. The accepted end must also still
// be connected after the search. Otherwise a user could connect, send a request and
// reset the connection, and another user's connection could already have reused the
// port.
func live(find find) owner {
	return func(conn *net.TCPConn) (uint32, error) {
		local, remote := addresses(conn)
		s, err := find(remote, local)
		switch {
		case errors.Is(err, errUnknown):
			return 0, missing(conn)
		case err != nil:
			return 0, err
		}
		if s.inode == 0 || !slices.Contains([]uint8{established, finWait1, finWait2}, s.state) {
			return 0, errGone
		}
		return s.uid, connected(conn)
	}
}

// connected returns errGone if the other end has reset the connection.
func connected(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	controlErr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	switch {
	case errors.Join(controlErr, err) != nil:
		return fmt.Errorf("read the state of a connection: %w", errors.Join(controlErr, err))
	case info.State != established && info.State != closeWait:
		return errGone
	}
	return nil
}

// diagnostics queries the kernel's socket diagnostics (sock_diag(7)).
type diagnostics struct {
	mu       sync.Mutex
	fd       int // netlink socket; valid if open
	open     bool
	sequence uint32
}

// The request and the reply of sock_diag(7). Ports and addresses are in network byte order.
type (
	socketID struct {
		SourcePort, DestinationPort [2]byte
		Source, Destination         [16]byte
		Interface                   uint32
		Cookie                      [2]uint32
	}
	diagnosticRequest struct {
		Family, Protocol, Extensions, _ uint8
		States                          uint32
		ID                              socketID
	}
	diagnosticReply struct {
		Family, State, Timer, Retransmits uint8
		ID                                socketID
		Expires, ReadQueue, WriteQueue    uint32
		UID, Inode                        uint32
	}
)

const (
	sockDiagByFamily = 20
	noCookie         = ^uint32(0)
	// replyTimeout is the maximum wait for a reply. The kernel sends it before the
	// request returns.
	replyTimeout = 1 // time in seconds
)

func (d *diagnostics) find(local, remote netip.AddrPort) (socket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply, err := d.ask(local, remote)
	switch {
	case errors.Is(err, unix.ENOENT):
		return socket{}, errUnknown
	case err != nil:
		d.close()
		return socket{}, fmt.Errorf("ask the kernel for the socket of %s: %w", local, err)
	case binary.BigEndian.Uint16(reply.ID.SourcePort[:]) != local.Port(), binary.BigEndian.Uint16(reply.ID.DestinationPort[:]) != remote.Port():
		return socket{}, errUnknown
	}
	return socket{uid: reply.UID, inode: reply.Inode, state: reply.State}, nil
}

// ask sends one request and returns the reply. An error reported by the kernel is
// a syscall.Errno.
func (d *diagnostics) ask(local, remote netip.AddrPort) (reply diagnosticReply, err error) {
	if err := d.connect(); err != nil {
		return reply, err
	}
	d.sequence++
	var request bytes.Buffer
	body := newDiagnosticRequest(local, remote)
	header := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + binary.Size(body)), Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST, Seq: d.sequence,
	}
	_ = binary.Write(&request, binary.NativeEndian, header) // a buffer does not fail
	_ = binary.Write(&request, binary.NativeEndian, body)
	if err := unix.Sendto(d.fd, request.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return reply, err
	}
	buffer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(d.fd, buffer, 0)
	if err != nil {
		return reply, err
	}
	messages, err := syscall.ParseNetlinkMessage(buffer[:n])
	if err != nil {
		return reply, err
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != d.sequence:
		case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
			return reply, syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		case m.Header.Type == sockDiagByFamily:
			_, err := binary.Decode(m.Data, binary.NativeEndian, &reply)
			return reply, err
		}
	}
	return reply, errors.New("no reply")
}

// connect opens the netlink socket unless it is open.
func (d *diagnostics) connect() error {
	if d.open {
		return nil
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: replyTimeout}); err != nil {
		_ = unix.Close(fd)
		return err
	}
	d.fd, d.open = fd, true
	return nil
}

func (d *diagnostics) close() {
	if d.open {
		_ = unix.Close(d.fd)
		d.open = false
	}
}

func newDiagnosticRequest(local, remote netip.AddrPort) diagnosticRequest {
	r := diagnosticRequest{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: ^uint32(0)}
	if local.Addr().Is4() {
		r.Family = unix.AF_INET
	}
	copy(r.ID.Source[:], local.Addr().AsSlice())
	copy(r.ID.Destination[:], remote.Addr().AsSlice())
	binary.BigEndian.PutUint16(r.ID.SourcePort[:], local.Port())
	binary.BigEndian.PutUint16(r.ID.DestinationPort[:], remote.Port())
	r.ID.Cookie = [2]uint32{noCookie, noCookie}
	return r
}

// tables are the files of /proc that list the TCP sockets of this network namespace.
var tables = []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}

// tableReads is how often the tables are read to find one socket. A single read can
// miss it while other sockets open and close.
const tableReads = 3

// findInTables searches the tables of /proc.
func findInTables(local, remote netip.AddrPort) (socket, error) {
	for range tableReads {
		for _, table := range tables {
			content, err := os.ReadFile(table)
			if errors.Is(err, os.ErrNotExist) && strings.HasSuffix(table, "6") { // the kernel has no IPv6
				continue
			}
			if err != nil {
				return socket{}, fmt.Errorf("read the table of connections: %w", err)
			}
			if s, found := findLine(string(content), local, remote); found {
				return s, nil
			}
		}
	}
	return socket{}, errUnknown
}

// findLine searches one table. An IPv4 connection of an IPv6 socket is in tcp6, with
// mapped addresses.
func findLine(table string, local, remote netip.AddrPort) (socket, bool) {
	const localColumn, remoteColumn, state, uid, inode = 1, 2, 3, 7, 9
	for line := range strings.Lines(table) {
		columns := strings.Fields(line)
		if len(columns) <= inode || !tableAddress(columns[localColumn], local) || !tableAddress(columns[remoteColumn], remote) {
			continue
		}
		st, err1 := strconv.ParseUint(columns[state], 16, 8)
		user, err2 := strconv.ParseUint(columns[uid], 10, 32)
		node, err3 := strconv.ParseUint(columns[inode], 10, 32)
		if errors.Join(err1, err2, err3) == nil {
			return socket{uid: uint32(user), inode: uint32(node), state: uint8(st)}, true
		}
	}
	return socket{}, false
}

// tableAddress reports whether a column equals an address. The column has hex
// words in this machine's byte order and a port.
func tableAddress(column string, address netip.AddrPort) bool {
	host, port, _ := strings.Cut(column, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != address.Port() || len(host)%8 != 0 {
		return false
	}
	var raw []byte
	for word := range slices.Chunk([]byte(host), 8) {
		value, err := strconv.ParseUint(string(word), 16, 32)
		if err != nil {
			return false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(value))
	}
	found, ok := netip.AddrFromSlice(raw)
	return ok && found.Unmap() == address.Addr()
}

// distinct returns an error if this user's number is shared: in a user namespace
// all unmapped users have the same number.
func distinct(self uint32) error {
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil || strings.TrimSpace(string(overflow)) != strconv.FormatUint(uint64(self), 10) {
		return nil
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && slices.Equal(strings.Fields(string(users)), []string{"0", "0", "4294967295"}) {
		return nil
	}
	return fmt.Errorf("user %d stands for all users that this user namespace does not map; run as another user", self)
}

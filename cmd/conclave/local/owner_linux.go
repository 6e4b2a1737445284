package local

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
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

func findOwner(conn *net.TCPConn) (uint32, error) { return findLiveOwner(conn, findSocket) }

// socket is the state of the other end.
type socket struct {
	uid, inode uint32
	state      uint8
}

// findLiveOwner returns the owner of the socket that find returns for the other end of a connection.
//
// A socket that its process has closed counts as gone, because the kernel reports orphans and sockets in
// TIME_WAIT as owned by root. The accepted end must also still be connected after the search. Otherwise a
// user could connect, send a request and reset the connection, and another user's connection could already
// have reused the port.
func findLiveOwner(conn *net.TCPConn, find func(local, remote netip.AddrPort) (socket, error)) (uint32, error) {
	local, remote := bothAddresses(conn)
	s, err := find(remote, local)
	if errors.Is(err, errUnknown) {
		s, err = find(remote, local) // a port that is reused at this moment is missing for an instant
	}
	switch {
	case errors.Is(err, errUnknown):
		return 0, missingOwner(conn)
	case err != nil:
		return 0, err
	}
	if s.inode == 0 || !slices.Contains([]uint8{established, finWait1, finWait2}, s.state) {
		return 0, errGone
	}
	return s.uid, requireConnected(conn)
}

// requireConnected returns errGone if the other end has reset the connection.
func requireConnected(conn *net.TCPConn) error {
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

// The request and the reply of the kernel's socket diagnostics, sock_diag(7). Ports and addresses are
// in network byte order.
type (
	socketID struct {
		SourcePort, DestinationPort [2]byte
		Source, Destination         [16]byte
		Interface                   uint32
		Cookie                      [2]uint32
	}
	diagnosticRequest struct {
		Header                          unix.NlMsghdr
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
	anyCookie        = ^uint32(0)
	// replyTimeout is the maximum wait for a reply. The kernel sends it before the request returns.
	replyTimeout = 1 // time in seconds
)

// findSocket returns the socket with these addresses, seen from its own end, or errUnknown.
func findSocket(local, remote netip.AddrPort) (socket, error) {
	reply, err := askKernel(local, remote)
	switch {
	case errors.Is(err, unix.ENOENT):
		return socket{}, errUnknown
	case err != nil:
		return socket{}, fmt.Errorf("ask the kernel for the socket of %s: %w", local, err)
	case binary.BigEndian.Uint16(reply.ID.SourcePort[:]) != local.Port(), binary.BigEndian.Uint16(reply.ID.DestinationPort[:]) != remote.Port():
		return socket{}, errUnknown
	}
	return socket{uid: reply.UID, inode: reply.Inode, state: reply.State}, nil
}

// askKernel sends one request and returns the reply. An error that the kernel reports is a syscall.Errno.
func askKernel(local, remote netip.AddrPort) (reply diagnosticReply, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return reply, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: replyTimeout}); err != nil {
		return reply, err
	}
	var request bytes.Buffer
	_ = binary.Write(&request, binary.NativeEndian, newDiagnosticRequest(local, remote)) // a buffer does not fail
	if err := unix.Sendto(fd, request.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return reply, err
	}
	buffer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(fd, buffer, 0)
	if err != nil {
		return reply, err
	}
	messages, err := syscall.ParseNetlinkMessage(buffer[:n])
	if err != nil || len(messages) == 0 {
		return reply, cmp.Or(err, errors.New("no reply"))
	}
	m := messages[0]
	if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
		return reply, syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
	}
	_, err = binary.Decode(m.Data, binary.NativeEndian, &reply)
	return reply, err
}

func newDiagnosticRequest(local, remote netip.AddrPort) *diagnosticRequest {
	r := &diagnosticRequest{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: ^uint32(0)}
	r.Header = unix.NlMsghdr{Len: uint32(binary.Size(r)), Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST}
	if local.Addr().Is4() {
		r.Family = unix.AF_INET
	}
	copy(r.ID.Source[:], local.Addr().AsSlice())
	copy(r.ID.Destination[:], remote.Addr().AsSlice())
	binary.BigEndian.PutUint16(r.ID.SourcePort[:], local.Port())
	binary.BigEndian.PutUint16(r.ID.DestinationPort[:], remote.Port())
	r.ID.Cookie = [2]uint32{anyCookie, anyCookie}
	return r
}

// requireDistinctUser returns an error if this user's number is shared: in a user namespace
// all unmapped users have the same number.
func requireDistinctUser(self uint32) error {
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

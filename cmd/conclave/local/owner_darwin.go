package local

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// States of TCP sockets.
const (
	established = 4
	closeWait   = 5
)

// findOwner returns the owner of the other end of a connection from the kernel's connection
// table, which netstat(1) also reads. The connection must still be open after the search;
// otherwise its port could have been freed and reused.
func findOwner(conn *net.TCPConn) (uint32, error) {
	table, err := unix.SysctlRaw("net.inet.tcp.pcblist_n")
	if err != nil {
		return 0, fmt.Errorf("read the table of connections: %w", err)
	}
	local, remote := bothAddresses(conn)
	uid, found := findRecord(table, remote, local)
	if !found {
		return 0, missingOwner(conn)
	}
	return uid, requireConnected(conn)
}

// requireConnected returns errGone if the other end has reset the connection.
func requireConnected(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPConnectionInfo
	controlErr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPConnectionInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_CONNECTION_INFO)
	})
	switch {
	case errors.Join(controlErr, err) != nil:
		return fmt.Errorf("read the state of a connection: %w", errors.Join(controlErr, err))
	case !slices.Contains([]uint8{established, closeWait}, info.State):
		return errGone
	}
	return nil
}

// requireDistinctUser returns nil, because each user has a distinct number on macOS.
func requireDistinctUser(uint32) error { return nil }

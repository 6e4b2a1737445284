package peer

import (
	"encoding/binary"
	"net/netip"
)

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

// recordAddresses reports whether an address record has these addresses.
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

package local

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// record returns a record of a table of macOS, padded to 8 bytes.
func record(kind, length int, fill func(record []byte)) []byte {
	r := make([]byte, (length+7)&^7)
	binary.NativeEndian.PutUint32(r, uint32(length))
	binary.NativeEndian.PutUint32(r[4:], uint32(kind))
	if fill != nil {
		fill(r)
	}
	return r
}

// pcb returns the records of a socket, in the sizes of macOS 14.
func pcb(uid uint32, local, remote string) []byte {
	addresses := record(kindAddresses, 104, func(r []byte) {
		put := func(address, port int, value string) {
			ap := netip.MustParseAddrPort(value)
			binary.BigEndian.PutUint16(r[port:], ap.Port())
			if ap.Addr().Is4() {
				r[versionFlags] |= versionIPv4
				copy(r[address+12:], ap.Addr().AsSlice())
				return
			}
			copy(r[address:], ap.Addr().AsSlice())
		}
		put(localAddress, localPort, local)
		put(foreignAddress, foreignPort, remote)
	})
	socket := record(kindSocket, 108, func(r []byte) { binary.NativeEndian.PutUint32(r[socketUID:], uid) })
	all := append(addresses, socket...)
	for _, other := range [][2]int{{0x002, 34}, {0x004, 34}, {0x008, 130}, {0x020, 204}} {
		all = append(all, record(other[0], other[1], nil)...)
	}
	return all
}

func TestFindRecord(t *testing.T) {
	t.Parallel()
	var table []byte
	for _, part := range [][]byte{
		record(0, 24, nil),
		pcb(501, "127.0.0.1:8080", "127.0.0.1:50000"), // the server's own end
		pcb(502, "127.0.0.1:50000", "127.0.0.1:8080"),
		pcb(503, "127.0.0.1:50000", "127.0.0.1:9090"),
		pcb(504, "[::1]:50001", "[::1]:8080"),
		record(0, 24, nil),
	} {
		table = append(table, part...)
	}
	for _, c := range []struct {
		local, remote string
		uid           uint32
		found         bool
	}{
		{"127.0.0.1:50000", "127.0.0.1:8080", 502, true},
		{"127.0.0.1:50000", "127.0.0.1:9090", 503, true},
		{"[::1]:50001", "[::1]:8080", 504, true},
		{"127.0.0.1:50002", "127.0.0.1:8080", 0, false},
	} {
		uid, found := findRecord(table, netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		require.Equal(t, c.found, found, c)
		require.Equal(t, c.uid, uid, c)
	}
	for cut := range table {
		_, _ = findRecord(table[:cut], netip.MustParseAddrPort("[::1]:50001"), netip.MustParseAddrPort("[::1]:8080"))
	}
	for _, broken := range [][]byte{nil, make([]byte, 64)} {
		_, found := findRecord(broken, netip.AddrPort{}, netip.AddrPort{})
		require.False(t, found)
	}
}

package tools

import "net/netip"

// special lists the ranges of IPv4 and of global IPv6 that do not lead to a public host or that
// embed another address.
var special = parsePrefixes(
	"0.0.0.0/8",       // addresses of the sender's network
	"10.0.0.0/8",      // private addresses
	"100.64.0.0/10",   // addresses of carriers
	"127.0.0.0/8",     // loopback addresses
	"169.254.0.0/16",  // link-local, with the metadata of clouds
	"172.16.0.0/12",   // private addresses
	"192.0.0.0/24",    // addresses of protocol assignments
	"192.0.2.0/24",    // addresses for documentation
	"192.88.99.0/24",  // addresses of 6to4 relays
	"192.168.0.0/16",  // private addresses
	"198.18.0.0/15",   // addresses for benchmarks
	"198.51.100.0/24", // addresses for documentation
	"203.0.113.0/24",  // addresses for documentation
	"224.0.0.0/4",     // multicast addresses
	"240.0.0.0/4",     // reserved addresses, and broadcast
	"2001::/23",       // protocol assignments, with Teredo
	"2001:db8::/32",   // addresses for documentation
	"2002::/16",       // addresses of 6to4
	"3fff::/20",       // addresses for documentation
)

// global6 is the range of global IPv6 addresses. Outside it are loopback, local and multicast
// addresses, and NAT64, which leads to IPv4 addresses.
var global6 = netip.MustParsePrefix("2000::/3")

func parsePrefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, p := range list {
		all[i] = netip.MustParsePrefix(p)
	}
	return all
}

// isPublic reports whether an address that a name resolves to may be dialled. The address must not
// be IPv4 mapped into IPv6.
func isPublic(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !global6.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// admits reports whether an address may be dialled for a destination on the list: it is public, or
// the list contains it with this port.
func (l Destinations) admits(a netip.Addr, port uint16) bool {
	a = a.Unmap()
	return isPublic(a) || l.Contains(Destination{Addr: a, Port: port})
}

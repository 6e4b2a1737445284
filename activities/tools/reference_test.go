package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// This reference implements the same rules slowly, with regular expressions, large tables and
// bytes. It shares no code with the parser and the address checks.
var (
	refDestination = regexp.MustCompile(`\A(?:\[([0-9A-Fa-f:.]*)\]|([^\[:][^:]*|)):([0-9]+)\z`)
	refPort        = regexp.MustCompile(`\A[1-9][0-9]{0,4}\z`)
	refIPv4        = regexp.MustCompile(`\A(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])(?:\.|\z)){4}\z`)
	refGroup       = regexp.MustCompile(`\A[0-9A-Fa-f]{1,4}\z`)
	refName        = regexp.MustCompile(`\A(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?\z`)
	refNumber      = regexp.MustCompile(`(?:\A|\.)(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?\z`)
)

// refParse returns a canonical text, or "" for a refusal.
func refParse(s string) string {
	m := refDestination.FindStringSubmatch(s)
	if m == nil || !refPort.MatchString(m[3]) {
		return ""
	}
	if port, err := strconv.Atoi(m[3]); err != nil || port > 65535 {
		return ""
	}
	switch {
	case strings.HasPrefix(s, "["):
		address := refIPv6(m[1])
		if address == "" {
			return ""
		}
		if v4, mapped := strings.CutPrefix(address, strings.Repeat("00", 10)+"ffff"); mapped {
			address = v4
		}
		return address + " " + m[3]
	case refIPv4.MatchString(m[2]) && !strings.HasSuffix(m[2], "."):
		return hexOf(m[2]) + " " + m[3]
	case !refName.MatchString(m[2]), refNumber.MatchString(m[2]), len(strings.TrimSuffix(m[2], ".")) > 253:
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(m[2], ".")) + " " + m[3]
}

// hexOf returns dotted decimals in hexadecimal.
func hexOf(dotted string) (hex string) {
	for _, part := range strings.Split(dotted, ".") {
		n, _ := strconv.Atoi(part)
		hex += fmt.Sprintf("%02x", n)
	}
	return hex
}

// refIPv6 returns an address as 32 hexadecimal digits, or "".
func refIPv6(s string) string {
	parts := strings.Split(s, "::")
	if len(parts) > 2 {
		return ""
	}
	var sides []string
	for i, part := range parts {
		side := ""
		groups := strings.Split(part, ":")
		if part == "" {
			groups = nil
		}
		for j, group := range groups {
			last := i == len(parts)-1 && j == len(groups)-1
			switch {
			case refGroup.MatchString(group):
				side += strings.Repeat("0", 4-len(group)) + strings.ToLower(group)
			case last && refIPv4.MatchString(group) && !strings.HasSuffix(group, "."):
				side += hexOf(group)
			default:
				return ""
			}
		}
		sides = append(sides, side)
	}
	switch digits := len(strings.Join(sides, "")); {
	case len(sides) == 1 && digits == 32:
		return sides[0]
	case len(sides) == 2 && digits < 32:
		return sides[0] + strings.Repeat("0", 32-digits) + sides[1]
	}
	return ""
}

// refClosed are the first and the last address of every closed range.
var refClosed = [][2]string{
	{"0.0.0.0", "0.255.255.255"},
	{"10.0.0.0", "10.255.255.255"},
	{"100.64.0.0", "100.127.255.255"},
	{"127.0.0.0", "127.255.255.255"},
	{"169.254.0.0", "169.254.255.255"},
	{"172.16.0.0", "172.31.255.255"},
	{"192.0.0.0", "192.0.0.255"},
	{"192.0.2.0", "192.0.2.255"},
	{"192.88.99.0", "192.88.99.255"},
	{"192.168.0.0", "192.168.255.255"},
	{"198.18.0.0", "198.19.255.255"},
	{"198.51.100.0", "198.51.100.255"},
	{"203.0.113.0", "203.0.113.255"},
	{"224.0.0.0", "255.255.255.255"},
	{"::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
}

func refPublic(a netip.Addr) bool {
	for _, r := range refClosed {
		first, last := netip.MustParseAddr(r[0]).AsSlice(), netip.MustParseAddr(r[1]).AsSlice()
		if b := a.AsSlice(); len(b) == len(first) && bytes.Compare(first, b) <= 0 && bytes.Compare(b, last) <= 0 {
			return false
		}
	}
	return true
}

// hostile makes destinations that look like those of a list.
type hostile struct{ *rand.Rand }

var (
	hostileHosts = []string{
		"code.example", "Code.Example.", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "127.1", "0x7f.1", "0x7f000001",
		"2130706433", "017700000001", "0177.0.0.1", "127.0.0.1.", "127.0.0.01", "localhost", "localhost.", "[::]", "[fe80::1%eth0]", "[::1%25lo]",
		"code.example@127.0.0.1", "code.example#", "code.example/..", "code.example?", "xn--code-.example", "cod\u0435.example", "ｃｏｄｅ.example", "１２７.0.0.1", "code。example",
		"code%2eexample", "code.example\x00.evil.example", "code.example\r\nHost: x", "code..example", ".code.example", "-code.example", "code-.example", "*.org", "", ".", "[", "]", "[]",
		"169.254.169.254", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "1.2.3.4", "1.2.3", "1.2.3.4.5", "256.1.1.1",
		"a_b.example", strings.Repeat("a", 63) + ".org", strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a",
		"example.0x", "example.0x7g", "example.123", "1e100.net", "0.0.0.0", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]", "[1::3::5]", "[1:2:3:4:5:6:1.2.3.4]", "[::1.2.3.04]",
	}
	hostilePorts = []string{":443", ":0443", ":80", ":0", ":65535", ":65536", ":+443", ":-1", ":", "", ":443:443", ":0x1bb", ": 443", ":443 ", ":４４３", ":https", ":99999999999999999999", ":443\n"}
	hostileBytes = []string{"0", "1", "9", "a", "F", "x", "X", ".", "..", ":", "::", "[", "]", "%", "@", "/", "-", "_", "\x00", " ", "\u00ad", "\u200b", "。", "é"}
)

func pick(r hostile, from []string) string { return from[r.IntN(len(from))] }

func (r hostile) destination() string {
	s := pick(r, hostileHosts) + pick(r, hostilePorts[:1+r.IntN(len(hostilePorts))])
	for range r.IntN(4) {
		at := r.IntN(len(s) + 1)
		switch r.IntN(4) {
		case 0:
			s = s[:at] + pick(r, hostileBytes) + s[at:]
		case 1:
			s = s[:at] + s[min(at+1, len(s)):]
		case 2:
			s = s[:at] + pick(r, hostileBytes) + s[min(at+1, len(s)):]
		case 3:
			s = s[:at] + strings.ToUpper(s[at:])
		}
	}
	return s
}

// address is random, or lies at the edge of a closed range.
func (r hostile) address() netip.Addr {
	edge := netip.MustParseAddr(refClosed[r.IntN(len(refClosed))][r.IntN(2)])
	switch r.IntN(5) {
	case 0:
		return edge
	case 1:
		return edge.Next()
	case 2:
		return edge.Prev()
	case 3:
		return netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
	default:
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[0] = 0x20 | b[0]&0x1f
		return netip.AddrFrom16(b).Unmap()
	}
}

// hostileNames is the number of names that the tests try: make hostile tries a million.
func hostileNames(t *testing.T) int {
	t.Helper()
	n := os.Getenv("CONCLAVE_HOSTILE")
	if n == "" {
		return 20_000
	}
	count, err := strconv.Atoi(n)
	require.NoError(t, err)
	return count
}

// canonical is a destination as the reference writes it.
func canonical(d Destination, err error) string {
	switch {
	case err != nil:
		return ""
	case d.Name != "":
		return fmt.Sprintf("%s %d", d.Name, d.Port)
	}
	return fmt.Sprintf("%x %d", d.Addr.AsSlice(), d.Port)
}

func TestHostile_parsedAsByTheReference(t *testing.T) {
	t.Parallel()
	r := hostile{rand.New(rand.NewPCG(1, 2))}
	accepted := 0
	n := hostileNames(t)
	for range n {
		s := r.destination()
		want := refParse(s)
		if got := canonical(parseHostPort(s)); got != want {
			require.Equal(t, want, got, "%q", s)
		}
		if want != "" {
			accepted++
		}
	}
	require.Greater(t, accepted, n/50, "some of the names are valid")
	require.Less(t, accepted, n/2, "most of them are not")
}

func TestHostile_addressesJudgedAsByTheReference(t *testing.T) {
	t.Parallel()
	r := hostile{rand.New(rand.NewPCG(3, 4))}
	public := 0
	n := hostileNames(t)
	for range n {
		a := r.address()
		if !a.IsValid() {
			continue // beyond the last address
		}
		want := refPublic(a)
		if got := isPublic(a); got != want {
			require.Equal(t, want, got, a)
		}
		if want {
			public++
		}
	}
	require.Greater(t, public, n/10)
}

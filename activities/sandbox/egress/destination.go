package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Destination is a host and a port. Equal destinations are equal values: the host is either a name
// in lower case without a final dot, or an address without a zone, never IPv4 mapped into IPv6.
type Destination struct {
	Name string
	Addr netip.Addr // set if Name is empty
	Port uint16
}

// String returns the destination in the format that parse accepts.
func (d Destination) String() string {
	if d.Name == "" {
		return netip.AddrPortFrom(d.Addr, d.Port).String()
	}
	return d.Name + ":" + strconv.Itoa(int(d.Port))
}

const (
	maxName  = 253 // most bytes of a DNS name
	maxLabel = 63
)

// parse parses host:port, where host is a DNS name, an IPv4 address or an IPv6 address in brackets.
// It accepts each address in one notation only, and refuses names that a resolver might treat as an
// address.
func parse(s string) (d Destination, err error) {
	host, port, bracketed, err := split(s)
	if err != nil {
		return d, err
	}
	if d.Port, err = parsePort(port); err != nil {
		return d, err
	}
	addr, notAddr := netip.ParseAddr(host)
	switch {
	case bracketed && (notAddr != nil || !addr.Is6() || addr.Zone() != ""):
		return Destination{}, errors.New("brackets hold an IPv6 address without a zone")
	case notAddr == nil: // without brackets it has no colon, so it is IPv4
		d.Addr = addr.Unmap()
		return d, nil
	}
	d.Name, err = parseName(host)
	return d, err
}

// split separates host and port. It removes the brackets around a host.
func split(s string) (host, port string, bracketed bool, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, port, ok = strings.Cut(rest, "]:")
		if !ok {
			return "", "", true, errors.New("a bracket has to end with ]:PORT")
		}
		return host, port, true, nil
	}
	host, port, ok := strings.Cut(s, ":")
	if !ok {
		return "", "", false, errors.New("the port is missing")
	}
	return host, port, false, nil
}

// parsePort parses a decimal number from 1 to 65535 without sign and leading zeros.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, errors.New("the port is not a number from 1 to 65535")
	}
	return uint16(n), nil
}

// parseName parses a DNS name of letters, digits, - and _.
func parseName(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("the host is not a name of 1 to %d characters", maxName)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", errors.New("the host is neither an address nor a DNS name")
		}
	}
	name = strings.ToLower(name) // ASCII only, by isLabel
	if last := strings.ToLower(labels[len(labels)-1]); isNumber(last) {
		return "", errors.New("the host looks like an address, and is not one in its usual form")
	}
	return name, nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// isNumber reports whether resolvers may treat a name that ends with this label as an IPv4 address,
// because the label is decimal, octal or hexadecimal.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// List contains the destinations that commands can reach.
type List []Destination

// Contains reports whether a destination is on the list.
func (l List) Contains(d Destination) bool { return slices.Contains(l, d) }

// String lists the destinations for messages.
func (l List) String() string {
	all := make([]string, len(l))
	for i, d := range l {
		all[i] = d.String()
	}
	return strings.Join(all, ", ")
}

// ParseList parses an operator's list. It refuses a local name with an error that states the
// remedy.
func ParseList(entries []string) (List, error) {
	list := make(List, 0, len(entries))
	for _, entry := range entries {
		d, err := ParseEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// ParseEntry parses one entry of an operator's list.
func ParseEntry(entry string) (Destination, error) {
	d, err := parse(entry)
	if err != nil {
		return d, fmt.Errorf("%w; give it as HOST:PORT, such as code.example:443", err)
	}
	if d.Name == "localhost" || strings.HasSuffix(d.Name, ".localhost") {
		return d, fmt.Errorf("no host name reaches the loopback interface; give its address, 127.0.0.1:%d", d.Port)
	}
	return d, nil
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	headerTimeout = 30 * time.Second // time for a client's request
	dialTimeout   = 20 * time.Second // includes resolving the name
	maxHeader     = 16 << 10         // bytes of a client's request
	maxTunnels    = 128              // most tunnels at a time
)

// Proxy connects the clients of a listener to destinations on a list.
type Proxy struct {
	list   Destinations
	server *http.Server
	served chan struct{} // closed when the listener is
	life   context.Context
	end    context.CancelFunc
	slots  chan struct{} // one slot for each tunnel

	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// ServeProxy serves a listening socket until Close. It uses a copy of the descriptor.
func ServeProxy(socket *os.File, list Destinations) (*Proxy, error) {
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, err
	}
	p := newProxy(list)
	p.startServing(l)
	return p, nil
}

func newProxy(list Destinations) *Proxy {
	p := &Proxy{list: list, served: make(chan struct{}), slots: make(chan struct{}, maxTunnels), dial: dialTCP}
	p.lookup = lookupBy(&net.Resolver{PreferGo: true}) // the C library accepts more notations for addresses
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

func (p *Proxy) startServing(l net.Listener) {
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serveRequest), ReadHeaderTimeout: headerTimeout, IdleTimeout: headerTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true,
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // Close ends it
	}()
}

// Close closes all connections, waits for their end and returns nil. It must be called only once.
func (p *Proxy) Close() error {
	p.end()
	_ = p.server.Close()
	<-p.served
	for range maxTunnels {
		p.slots <- struct{}{}
	}
	return nil
}

// lookupBy returns a function that resolves absolute names, without the host's search domains.
func lookupBy(r *net.Resolver) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, name string) ([]netip.Addr, error) {
		return r.LookupNetIP(ctx, "ip", name+".")
	}
}

func dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}

func (p *Proxy) serveRequest(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy accepts CONNECT only: use https, or a client that tunnels", http.StatusMethodNotAllowed)
		return
	}
	d, err := parseHostPort(r.RequestURI)
	switch {
	case err != nil:
		http.Error(w, fmt.Sprintf("cannot connect to %q: %v", r.RequestURI, err), http.StatusBadRequest)
		return
	case !p.list.Contains(d):
		http.Error(w, fmt.Sprintf("%s is not on the operator's list; commands can reach %s", d, p.list), http.StatusForbidden)
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		http.Error(w, fmt.Sprintf("too many connections; at most %d are open at a time", maxTunnels), http.StatusServiceUnavailable)
		return
	}
	far, err := p.dialAdmitted(d)
	if err != nil {
		code := http.StatusBadGateway
		if errors.Is(err, errRefused) {
			code = http.StatusForbidden
		}
		http.Error(w, fmt.Sprintf("cannot connect to %s: %v", d, err), code)
		return
	}
	defer func() { _ = far.Close() }()
	p.tunnelData(w, far)
}

// errRefused is returned if the addresses of a name may not be dialled.
var errRefused = errors.New("its address is local, private or reserved; the operator's list has to have the address itself")

func (p *Proxy) dialAdmitted(d Destination) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(p.life, dialTimeout)
	defer cancel()
	addrs := []netip.Addr{d.Addr}
	if d.Name != "" {
		var err error
		if addrs, err = p.lookup(ctx, d.Name); err != nil {
			return nil, fmt.Errorf("resolve its name: %w", err)
		}
	}
	refusal := errRefused
	for _, a := range addrs {
		if !p.list.admits(a, d.Port) {
			continue
		}
		conn, err := p.dial(ctx, netip.AddrPortFrom(a.Unmap(), d.Port))
		if err == nil {
			return conn, nil
		}
		refusal = err
	}
	return nil, refusal
}

// tunnelData copies data between the client and the destination until both have ended or the proxy is closed.
func (p *Proxy) tunnelData(w http.ResponseWriter, far net.Conn) {
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the client has disconnected
	}
	defer func() { _ = near.Close() }()
	defer context.AfterFunc(p.life, func() {
		_ = near.Close()
		_ = far.Close()
	})()
	_ = near.SetDeadline(time.Time{})
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { copyDirection(near, far) })
	copyDirection(far, buffered.Reader)
	back.Wait()
}

func copyDirection(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
	}
}

// Destination is a host and a port. Equal destinations are equal values: the host is either a name
// in lower case without a final dot, or an address without a zone, never IPv4 mapped into IPv6.
type Destination struct {
	Name string
	Addr netip.Addr // set if Name is empty
	Port uint16
}

// String returns the destination in the format that parseHostPort accepts.
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

// parseHostPort parses host:port, where host is a DNS name, an IPv4 address or an IPv6 address in brackets.
// It accepts each address in one notation only, and refuses names that a resolver might treat as an address.
func parseHostPort(s string) (d Destination, err error) {
	host, port, bracketed, err := splitHostPort(s)
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

func splitHostPort(s string) (host, port string, bracketed bool, err error) {
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

// Destinations contains the destinations that commands can reach.
type Destinations []Destination

// Contains reports whether a destination is on the list.
func (l Destinations) Contains(d Destination) bool { return slices.Contains(l, d) }

// String lists the destinations for messages.
func (l Destinations) String() string {
	all := make([]string, len(l))
	for i, d := range l {
		all[i] = d.String()
	}
	return strings.Join(all, ", ")
}

// ParseDestinations parses an operator's list. It refuses a local name with an error that states the remedy.
func ParseDestinations(entries []string) (Destinations, error) {
	list := make(Destinations, 0, len(entries))
	for _, entry := range entries {
		d, err := ParseDestination(entry)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// ParseDestination parses one entry of an operator's list.
func ParseDestination(entry string) (Destination, error) {
	d, err := parseHostPort(entry)
	if err != nil {
		return d, fmt.Errorf("%w; give it as HOST:PORT, such as code.example:443", err)
	}
	if d.Name == "localhost" || strings.HasSuffix(d.Name, ".localhost") {
		return d, fmt.Errorf("no host name reaches the loopback interface; give its address, 127.0.0.1:%d", d.Port)
	}
	return d, nil
}

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
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// admits reports whether an address may be dialled for a destination on the list: it is public, or
// the list contains it with this port.
func (l Destinations) admits(a netip.Addr, port uint16) bool {
	a = a.Unmap()
	return isPublic(a) || l.Contains(Destination{Addr: a, Port: port})
}

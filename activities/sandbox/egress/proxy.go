package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
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
	list   List
	server *http.Server
	served chan struct{} // closed when the listener is
	life   context.Context
	end    context.CancelFunc
	slots  chan struct{} // one slot for each tunnel

	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Start serves a listener. Close closes it.
func Start(l net.Listener, list List) *Proxy {
	p := newProxy(list)
	p.start(l)
	return p
}

// Serve serves a listening socket until Close. It uses a copy of the descriptor.
func Serve(socket *os.File, list List) (*Proxy, error) {
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, err
	}
	return Start(l, list), nil
}

func newProxy(list List) *Proxy {
	p := &Proxy{list: list, served: make(chan struct{}), slots: make(chan struct{}, maxTunnels), dial: dial}
	p.lookup = lookupBy(&net.Resolver{PreferGo: true}) // the C library accepts more notations for addresses
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

func (p *Proxy) start(l net.Listener) {
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: headerTimeout, MaxHeaderBytes: maxHeader,
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

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy accepts CONNECT only: use https, or a client that tunnels", http.StatusMethodNotAllowed)
		return
	}
	d, err := parse(r.RequestURI)
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
	far, err := p.connect(d)
	if err != nil {
		code := http.StatusBadGateway
		if errors.Is(err, errRefused) {
			code = http.StatusForbidden
		}
		http.Error(w, fmt.Sprintf("cannot connect to %s: %v", d, err), code)
		return
	}
	defer func() { _ = far.Close() }()
	p.tunnel(w, far)
}

// errRefused is returned if the addresses of a name may not be dialled.
var errRefused = errors.New("its address is local, private or reserved; the operator's list has to have the address itself")

// connect dials the addresses of a destination that are admitted, and returns the first connection.
func (p *Proxy) connect(d Destination) (net.Conn, error) {
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

// tunnel copies data between the client and the destination until both have ended or the proxy is
// closed.
func (p *Proxy) tunnel(w http.ResponseWriter, far net.Conn) {
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
	back.Go(func() { pass(near, far) })
	pass(far, buffered.Reader)
	back.Wait()
}

// pass copies one direction, including its end.
func pass(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
	}
}

package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/chat"
	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/devserver/peer"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/mcpserver"
	"conclave/cmd/conclave/runs"
)

// stopTime is how long running replies may take when the server stops.
const stopTime = 2 * time.Second

// DefaultListen is the default address of the server.
const DefaultListen = "127.0.0.1:8333"

// Server is a running server.
type Server struct {
	Address string // http://HOST:PORT, as this machine reaches it

	everywhere bool // it listens on all addresses of this machine
	http       *http.Server
	failed     chan error

	requests sync.RWMutex // held for reading by each request
}

// Options configure a server.
type Options struct {
	Listen   string // address as HOST:PORT
	Keys     *access.Keys
	AnyUser  bool // admit any user of this machine; for loopback without keys
	AnyPort  bool // another port if that of Listen is taken
	ReadOnly bool
	Teams    []desk.Team
	Kinds    []*runs.Kind // kinds of the runs that the pages list and steer
	Version  string       // version of conclave
}

// Start starts a server for the sessions of a connection.
func Start(ctx context.Context, conn *hall.Connection, o Options) (*Server, error) {
	gate, err := access.New(o.Listen, o.Keys)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{failed: make(chan error, 1)}
	s.Address, s.everywhere = addressOf(listener.Addr())
	if gate.Open() && !o.AnyUser {
		if listener, err = peer.ForThisUser(listener, conn.Warnf, "give callers keys with --keys"); err != nil {
			return nil, err
		}
	}
	conn.Pages = s.Address
	d := desk.New(conn, o.Teams, listener.Addr().String())
	mux := http.NewServeMux()
	page := func(r *http.Request, session string) string { return s.reached(r) + "/sessions/" + session }
	pages := ownPages(d, live.New(conn, live.Options{Kinds: o.Kinds, ReadOnly: o.ReadOnly}))
	mux.Handle("/", pages)
	api := chat.New(d, page, o.ReadOnly)
	mux.Handle("/v1", api)
	mux.Handle("/v1/", api)
	mux.Handle("/mcp", mcpserver.Handler(d, mcpserver.Options{Version: o.Version, ReadOnly: o.ReadOnly}))
	s.http = bounded(s.counted(gate.Handler(mux)))
	go func() { s.failed <- s.http.Serve(boundedListener{listener}) }()
	return s, nil
}

// addressOf returns an address at which this machine can reach a listener. everywhere reports
// whether the listener listens on all addresses.
func addressOf(listens net.Addr) (address string, everywhere bool) {
	host, port, _ := net.SplitHostPort(listens.String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host, everywhere = "127.0.0.1", true
	}
	return "http://" + net.JoinHostPort(host, port), everywhere
}

// reached returns the address at which the client reached the server. If the server listens on
// all addresses, it is the Host of the request.
func (s *Server) reached(r *http.Request) string {
	if s.everywhere && r.Host != "" {
		return "http://" + r.Host
	}
	return s.Address
}

// counted makes Stop wait for running requests.
func (s *Server) counted(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.RLock()
		defer s.requests.RUnlock()
		handler.ServeHTTP(w, r)
	})
}

// listen listens on the address. With AnyPort it falls back to another port of the same host.
func listen(ctx context.Context, o Options) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", o.Listen)
	if err != nil && o.AnyPort {
		host, _, _ := net.SplitHostPort(o.Listen)
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", o.Listen, err)
	}
	return l, nil
}

// Stop stops the server. Running replies break off, but their sessions continue.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
		s.requests.Lock() // their connections are broken: they end, and record it
		defer s.requests.Unlock()
	}
}

// Failed returns a channel that receives the error if the server ends unexpectedly.
func (s *Server) Failed() <-chan error { return s.failed }

package live

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/devserver/peer"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
)

// Offer serves the pages of a connection's sessions during a command and sets conn.Pages. It
// does nothing if the output is for a program or there is no store. If it cannot serve, it
// prints a message and the command continues.
func Offer(conn *hall.Connection, kinds ...*runs.Kind) (stop func()) {
	if conn.Scripted() || conn.Store == nil {
		return func() {}
	}
	address, stop, err := Serve(New(conn, Options{Kinds: kinds, AnyUser: conn.Stack.OtherUsers}), "127.0.0.1:0")
	if err != nil {
		conn.Infof("the page of the session is not served: %v", err)
		return func() {}
	}
	conn.Pages = address
	return stop
}

// Serve serves pages on a loopback address and returns the address. Where the system can
// identify the owners of connections, it admits only this user and root.
func Serve(h *Handler, listen string) (address string, stop func(), err error) {
	allow, err := access.New(listen, nil)
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", nil, fmt.Errorf("serve the pages: %w; choose another --listen", err)
	}
	address = "http://" + l.Addr().String()
	if gate, err := peer.New(peer.Reports{Refused: func(uint32) {}, Failed: func(error) {}}); err == nil && !h.AnyUser {
		l = gate.Listener(l)
	}
	ctx, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: allow.Handler(h), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = server.Serve(l) }() // its end is the close below
	return address, func() {
		end()
		_ = server.Close()
	}, nil
}

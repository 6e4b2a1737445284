package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/text"
	"conclave/workflows"
)

// serveList shows all runs. To the holder of a key it shows only the sessions started with that key.
func (h *Handler) serveList(w http.ResponseWriter, r *http.Request) {
	if h.conn == nil {
		for base := range h.pages {
			http.Redirect(w, r, base, http.StatusSeeOther)
		}
		return
	}
	filter, by := page.FilterOf(r.URL.Query()), access.From(r.Context())
	var items []record.Item
	if h.conn.Client == nil && by.Name == "" {
		var err error
		if items, err = record.List(r.Context(), h.conn.Store); err != nil {
			sendError(w, err)
			return
		}
	} else if h.conn.Client != nil {
		for _, kind := range h.Kinds {
			found, err := runs.All(r.Context(), h.conn, kind)
			if err != nil {
				sendError(w, err)
				return
			}
			for _, each := range found {
				if by.Name != "" && runs.Memo(each.Memo, workflows.MemoCaller, "") != by.Name {
					continue // the key's own sessions only
				}
				items = append(items, itemOf(each))
			}
		}
	}
	html, err := page.List(items, filter)
	if err != nil {
		sendError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

func itemOf(r runs.Run) record.Item {
	return record.Item{
		ID: r.ID, Kind: r.Kind.Noun, Status: r.Shown(), Query: text.OneLine(r.Query), Started: r.Started, Took: r.Elapsed(), Usage: r.Usage,
		Parent: r.Pipeline, Team: r.Team, Offline: r.Offline,
		Href: r.Stored().Page(),
	}
}

// Offer serves the pages of a connection's sessions during a command and sets conn.Pages. It
// does nothing if the output is for a program or there is no store. If it cannot serve, it
// prints a message and the command continues.
func Offer(conn *cli.Connection, kinds ...*runs.Kind) (stop func()) {
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
	if gate, err := local.NewGate(local.Reports{Refused: func(uint32) {}, Failed: func(error) {}}); err == nil && !h.AnyUser {
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

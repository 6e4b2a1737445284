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
	by, key := access.From(r.Context()), r.URL.Query().Get("n")
	items, err := h.listItems(r.Context(), by)
	var html []byte
	if err == nil {
		said := h.takeNotice(key)
		live := page.Live{Notice: said.text, Failed: said.failed, Command: h.conn.CommandLine}
		if h.conn.Client != nil && !h.ReadOnly {
			live.Token = h.token
			for _, t := range h.Desk.Teams(by) {
				if !t.Aside {
					live.Teams = append(live.Teams, t.Name)
				}
			}
		}
		html, err = page.List(items, page.FilterOf(r.URL.Query()), live)
	}
	if err != nil {
		SendProblem(w, statusOf(err), err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html)
}

// listItems lists the runs that a caller may see, the newest of each kind first.
func (h *Handler) listItems(ctx context.Context, by access.Caller) (items []record.Item, err error) {
	switch {
	case h.conn.Client == nil && by.Name != "":
		return nil, nil
	case h.conn.Client == nil:
		return record.List(ctx, h.conn.Store)
	}
	for _, kind := range h.Kinds {
		found, err := runs.All(ctx, h.conn, kind)
		if err != nil {
			return nil, err
		}
		for _, each := range found {
			if by.Name != "" && runs.Memo(each.Memo, workflows.MemoCaller, "") != by.Name {
				continue // the key's own sessions only
			}
			items = append(items, itemOf(each))
		}
	}
	return items, nil
}

func itemOf(r runs.Run) record.Item {
	return record.Item{
		ID: r.ID, Kind: r.Kind.Noun, Status: r.Shown(), Query: text.OneLine(r.Query), Started: r.Started, Took: r.Elapsed(), Usage: r.Usage,
		Parent: r.Pipeline, Team: r.Team, Offline: r.Offline,
		Href: r.Stored().Page(),
	}
}

// Offer serves the pages of a connection's sessions during a command and sets conn.Pages. It
// does nothing if a dev of the data directory serves them, the output is for a program or there is no store. If it cannot serve, it
// prints a message and the command continues.
func Offer(conn *cli.Connection, kinds ...*runs.Kind) (stop func()) {
	if conn.Scripted() || conn.Store == nil || conn.Pages != "" {
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

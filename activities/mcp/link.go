package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/redact"
	"conclave/engine/text"
)

// Limits of reconnections to one server in one step. The count restarts when a step joins a shared
// server.
const (
	maxReconnects = 8
	firstPause    = 500 * time.Millisecond // pause before the second reconnect; doubled each time
	maxPause      = 10 * time.Second
)

// link is a server and its successive connections.
type link struct {
	server    Server
	dir, home string // its workspace; its HOME, below which it starts
	log       *slog.Logger
	redactor  *redact.Redactor // removes the server's secrets

	connecting sync.Mutex
	current    *session // guarded by connecting; nil after a broken connection
	reconnects int

	listing sync.Mutex
	listed  []*sdk.Tool // guarded by listing: the server's newest list
	version int         // guarded by listing: counts the lists
	started string      // guarded by listing: identifies the newest connection
}

// newLink creates the directories of a server without connecting to it.
func newLink(s Server, dir, home string, log *slog.Logger) (*link, error) {
	s.CallTimeout = cmp.Or(s.CallTimeout, defaultCall)
	s.StartTimeout = cmp.Or(s.StartTimeout, defaultStart)
	if err := errors.Join(os.MkdirAll(filepath.Join(home, tempName), 0o700), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, &StartError{Server: s.Name, Err: err}
	}
	return &link{server: s, dir: dir, home: home, log: log, redactor: s.redactor()}, nil
}

// open returns a connection for the beginning of a step: that of a shared server if it has one,
// otherwise a new one.
func (l *link) open(ctx context.Context) (*session, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	l.reconnects = 0
	if l.current == nil || l.current.broken() {
		l.disconnect()
		if err := l.dial(ctx); err != nil {
			return nil, err
		}
	}
	return l.current, nil
}

// connected reports whether there is a connection that is not known to be broken.
func (l *link) connected() bool {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	return l.current != nil && !l.current.broken()
}

// dial connects, lists the server's tools and follows changes to the list.
func (l *link) dial(ctx context.Context) error {
	s, tools, err := connect(ctx, l.server, l.dir, l.home, rand.Text())
	if err != nil {
		return &StartError{Server: l.server.Name, Err: errors.New(l.redactor.String(text.Terminal(err.Error())))}
	}
	l.current = s
	l.listing.Lock()
	l.started = rand.Text()
	l.listing.Unlock()
	l.list(tools)
	s.follow(l.log.With("mcp_server", l.server.Name), l.list)
	return nil
}

// list replaces the list of the server's tools.
func (l *link) list(tools []*sdk.Tool) {
	l.listing.Lock()
	defer l.listing.Unlock()
	l.listed = tools
	l.version++
}

// ready returns a connection that is not known to be broken, reconnecting if necessary.
func (l *link) ready(ctx context.Context) (*session, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.current != nil && !l.current.broken() {
		return l.current, nil
	}
	l.disconnect()
	if l.reconnects >= maxReconnects {
		return nil, &StartError{Server: l.server.Name, Err: errors.New("it broke too often; its tools are gone for the rest of this step")}
	}
	pause := time.Duration(0)
	if l.reconnects > 0 {
		pause = min(firstPause<<(l.reconnects-1), maxPause)
	}
	l.reconnects++
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(pause):
	}
	if err := l.dial(ctx); err != nil {
		l.log.Warn("an MCP server cannot be connected again", "mcp_server", l.server.Name, "error", err)
		return nil, err
	}
	l.log.Info("an MCP server was connected again", "mcp_server", l.server.Name, "reconnects", l.reconnects)
	return l.current, nil
}

// drop ends a connection that broke during a call and returns the reason.
func (l *link) drop(s *session, err error) string {
	about := err.Error()
	if cause := context.Cause(s.life); cause != nil {
		about = cause.Error()
	}
	if s.process != nil {
		about += s.process.report()
	}
	about = l.redactor.String(text.Terminal(about))
	l.log.Warn("the connection to an MCP server broke", "mcp_server", l.server.Name, "error", about)
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.current == s {
		l.disconnect()
	}
	return about
}

func (l *link) disconnect() {
	if l.current != nil {
		l.current.close()
		l.current = nil
	}
}

func (l *link) close() {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	l.disconnect()
	l.reconnects = maxReconnects
}

// failure returns an output that reports an error, with the server's secrets removed.
func (l *link) failure(format string, args ...any) *output {
	return &output{failed: true, parts: []string{"error: " + l.redactor.String(fmt.Sprintf(format, args...))}}
}

// rejection returns an output for a fault after which the connection is still usable.
func (l *link) rejection(t tool, f *fault) *output {
	reason := text.Terminal(f.err.Error())
	switch {
	case f.kind == late:
		return l.failure("%q of MCP server %q took longer than %s; the server continues. Check the effect of the call before you repeat it",
			t.own, l.server.Name, l.server.CallTimeout)
	case f.kind == busy && !f.unsent:
		return l.failure("MCP server %q gave no usable answer to %q: %s. Whether the call was carried out is not known; check before you repeat it",
			l.server.Name, t.own, reason)
	}
	return l.failure("MCP server %q refused the call of %q: %s", l.server.Name, t.own, reason)
}

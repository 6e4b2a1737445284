package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/text"
)

// Limits of reconnections to one server in one step. The count restarts when a step joins a shared server.
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
	redactor  *text.Redactor // removes the server's secrets

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
	return &link{server: s, dir: dir, home: home, log: log, redactor: s.newRedactor()}, nil
}

// openForStep returns a connection for the beginning of a step: that of a shared server if it has one,
// otherwise a new one.
func (l *link) openForStep(ctx context.Context) (*session, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	l.reconnects = 0
	if l.current == nil || l.current.isBroken() {
		l.disconnect()
		if err := l.dial(ctx); err != nil {
			return nil, err
		}
	}
	return l.current, nil
}

func (l *link) isConnected() bool {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	return l.current != nil && !l.current.isBroken()
}

// dial connects, lists the server's tools and follows changes to the list.
func (l *link) dial(ctx context.Context) error {
	s, tools, err := connectServer(ctx, l.server, l.dir, l.home, rand.Text())
	if err != nil {
		return &StartError{Server: l.server.Name, Err: errors.New(l.redactor.String(text.Terminal(err.Error())))}
	}
	l.current = s
	l.listing.Lock()
	l.started = rand.Text()
	l.listing.Unlock()
	l.setTools(tools)
	s.followTools(l.log.With("mcp_server", l.server.Name), l.setTools)
	return nil
}

func (l *link) setTools(tools []*sdk.Tool) {
	l.listing.Lock()
	defer l.listing.Unlock()
	l.listed = tools
	l.version++
}

func (l *link) readyConnection(ctx context.Context) (*session, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.current != nil && !l.current.isBroken() {
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

func (l *link) dropBroken(s *session, err error) string {
	about := err.Error()
	if cause := context.Cause(s.life); cause != nil {
		about = cause.Error()
	}
	if s.process != nil {
		about += s.process.describeEnd()
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

// failedOutput returns an output that reports an error, with the server's secrets removed.
func (l *link) failedOutput(format string, args ...any) *output {
	return &output{failed: true, parts: []string{"error: " + l.redactor.String(fmt.Sprintf(format, args...))}}
}

func (l *link) rejectedOutput(t tool, f *fault) *output {
	reason := text.Terminal(f.err.Error())
	switch {
	case f.kind == late:
		return l.failedOutput("%q of MCP server %q took longer than %s; the server continues. Check the effect of the call before you repeat it",
			t.own, l.server.Name, l.server.CallTimeout)
	case f.kind == busy && !f.unsent:
		return l.failedOutput("MCP server %q gave no usable answer to %q: %s. Whether the call was carried out is not known; check before you repeat it",
			l.server.Name, t.own, reason)
	}
	return l.failedOutput("MCP server %q refused the call of %q: %s", l.server.Name, t.own, reason)
}

// offer is the part of a server's tools that is offered to one step.
type offer struct {
	link     *link
	allowed  []string // nil for all
	excluded []string
	names    *names // names of the step's tools
	release  func() // ends the step's use of the server

	mu      sync.Mutex
	version int // the version of the list from which tools was made
	tools   []tool
	used    *session // the connection of the step's last call or, before that, of its beginning
}

func (o *offer) offeredTools() []tool {
	o.link.listing.Lock()
	listed, version, started := o.link.listed, o.link.version, o.link.started
	o.link.listing.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if version != o.version {
		o.version, o.tools = version, o.chooseTools(listed, started)
	}
	return o.tools
}

// chooseTools applies the filters and omits tools that providers would refuse.
func (o *offer) chooseTools(listed []*sdk.Tool, started string) []tool {
	log := o.link.log.With("mcp_server", o.link.server.Name)
	o.reportUnknown(listed)
	var tools []tool
	for _, d := range listed {
		if o.allowed != nil && !slices.Contains(o.allowed, d.Name) || slices.Contains(o.excluded, d.Name) {
			continue
		}
		t, err := newTool(o.names, o.link.server.Name, d)
		if err == nil && slices.ContainsFunc(tools, func(other tool) bool { return other.own == t.own }) {
			err = errors.New("it is listed twice, which providers refuse; the first one counts")
		}
		if err != nil {
			log.Warn("a tool of an MCP server is left out", "tool", fmt.Sprintf("%.100q", d.Name), "error", err)
			continue
		}
		t.offered.State = started
		tools = append(tools, t)
	}
	return tools
}

// reportUnknown logs names in the filters that the server does not list; they may be misspelled.
func (o *offer) reportUnknown(listed []*sdk.Tool) {
	for _, name := range slices.Concat(o.allowed, o.excluded) {
		if !slices.ContainsFunc(listed, func(d *sdk.Tool) bool { return d.Name == name }) {
			o.link.log.Warn("allowed_tools or exclude_tools names a tool that the MCP server does not list", "mcp_server", o.link.server.Name, "tool", name)
		}
	}
}

// switchConnection reports whether a connection differs from that of the step's previous call.
func (o *offer) switchConnection(s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	other := o.used != s
	o.used = s
	return other
}

// callTool returns the result of a tool or the failure of its server; the error is that of ctx. It
// repeats a call that was not sent, once.
func (o *offer) callTool(ctx context.Context, t tool, arguments json.RawMessage) (*output, error) {
	l, reconnected := o.link, false
	for retried := false; ; retried = true {
		s, err := l.readyConnection(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return l.failedOutput("%v", err), nil
		}
		reconnected = o.switchConnection(s) || reconnected
		result, failed := s.callTool(ctx, l.server.CallTimeout, t.own, arguments)
		switch {
		case failed == nil:
			out := toOutput(result)
			if reconnected {
				out.addPart("[MCP server %q was reconnected before this call: state from earlier calls, such as an open page, may be lost]", l.server.Name)
			}
			return out, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failed.kind != lost:
			return l.rejectedOutput(t, failed), nil
		}
		about := l.dropBroken(s, failed.err)
		if !failed.unsent { // a second call could repeat its effects
			return o.reportInterrupted(ctx, t, about), nil
		}
		if retried {
			return l.failedOutput("MCP server %q did not take the call of %q: %s", l.server.Name, t.own, about), nil
		}
	}
}

func (o *offer) reportInterrupted(ctx context.Context, t tool, about string) *output {
	l, now := o.link, "The server was reconnected; state from earlier calls, such as an open page, may be lost"
	if s, err := l.readyConnection(ctx); err != nil {
		now = "Reconnecting failed: " + err.Error()
	} else {
		o.switchConnection(s)
	}
	return l.failedOutput("the connection to MCP server %q broke during the call of %q: %s\nWhether the call was carried out is not known; check before you repeat it. %s",
		l.server.Name, t.own, about, now)
}

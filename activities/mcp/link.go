package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/redact"
	"conclave/engine/text"
)

// Connections after the first, per server and step.
const (
	maxReconnects = 8
	firstPause    = 500 * time.Millisecond // before the second reconnect; doubled each time
	maxPause      = 10 * time.Second
)

// link is a server and its successive connections.
type link struct {
	server    Server
	dir, home string
	log       *slog.Logger
	names     *names
	redactor  *redact.Redactor // of the server's secrets

	connecting sync.Mutex
	current    *session // guarded by connecting; nil after a broken connection
	reconnects int

	offering sync.Mutex
	tools    []tool // guarded by offering
}

// dial makes a connection and returns the server's tools, not yet offered.
func (l *link) dial(ctx context.Context) ([]*sdk.Tool, error) {
	s, tools, err := connect(ctx, l.server, l.dir, l.home, rand.Text())
	if err != nil {
		return nil, &StartError{Server: l.server.Name, Err: errors.New(l.redactor.String(text.Terminal(err.Error())))}
	}
	l.current = s
	return tools, nil
}

// begin offers the tools of a new connection and follows their changes.
func (l *link) begin(tools []*sdk.Tool) {
	l.offer(tools)
	l.current.follow(l.log.With("mcp_server", l.server.Name), l.offer)
}

// ready returns a connection that is not known to be broken, and whether it is new.
func (l *link) ready(ctx context.Context) (*session, bool, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.current != nil && !l.current.broken() {
		return l.current, false, nil
	}
	l.disconnect()
	if l.reconnects >= maxReconnects {
		return nil, false, &StartError{Server: l.server.Name, Err: errors.New("it broke too often; its tools are gone for the rest of this step")}
	}
	pause := time.Duration(0)
	if l.reconnects > 0 {
		pause = min(firstPause<<(l.reconnects-1), maxPause)
	}
	l.reconnects++
	select {
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	case <-time.After(pause):
	}
	tools, err := l.dial(ctx)
	if err != nil {
		l.log.Warn("an MCP server cannot be connected again", "mcp_server", l.server.Name, "error", err)
		return nil, false, err
	}
	l.begin(tools)
	l.log.Info("an MCP server was connected again", "mcp_server", l.server.Name, "reconnects", l.reconnects)
	return l.current, true, nil
}

// drop ends a connection that a call found broken, and returns the reason.
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

func (l *link) offer(described []*sdk.Tool) {
	var tools []tool
	for _, d := range described {
		t, err := newTool(l.names, l.server.Name, d)
		if err == nil && slices.ContainsFunc(tools, func(other tool) bool { return other.own == t.own }) {
			err = errors.New("it is listed twice, which providers refuse; the first one counts")
		}
		if err != nil {
			l.log.Warn("a tool of an MCP server is left out", "mcp_server", l.server.Name, "tool", fmt.Sprintf("%.100q", d.Name), "error", err)
			continue
		}
		tools = append(tools, t)
	}
	l.offering.Lock()
	defer l.offering.Unlock()
	l.tools = tools
}

func (l *link) offered() []tool {
	l.offering.Lock()
	defer l.offering.Unlock()
	return l.tools
}

// call returns a tool's result, a failure of the server, or the end of ctx. It repeats an unsent call
// once.
func (l *link) call(ctx context.Context, t tool, arguments json.RawMessage) (*output, error) {
	reconnected := false
	for retried := false; ; retried = true {
		s, isNew, err := l.ready(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return l.failure("%v", err), nil
		}
		reconnected = reconnected || isNew
		result, failed := s.call(ctx, l.server.CallTimeout, t.own, arguments)
		switch {
		case failed == nil:
			o := toOutput(result)
			if reconnected {
				o.add("[MCP server %q was reconnected before this call: state from earlier calls, such as an open page, may be lost]", l.server.Name)
			}
			return o, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failed.kind != lost:
			return l.rejection(t, failed), nil
		}
		about := l.drop(s, failed.err)
		if !failed.unsent {
			return l.interruption(ctx, t, about), nil
		}
		if retried {
			return l.failure("MCP server %q did not take the call of %q: %s", l.server.Name, t.own, about), nil
		}
	}
}

// failure returns an output that reports an error without the server's secrets.
func (l *link) failure(format string, args ...any) *output {
	return &output{parts: []string{"error: " + l.redactor.String(fmt.Sprintf(format, args...))}}
}

// rejection reports a fault that leaves the connection usable.
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

// interruption reconnects the server after a connection broke during a call, and reports both.
func (l *link) interruption(ctx context.Context, t tool, about string) *output {
	now := "The server was reconnected; state from earlier calls, such as an open page, may be lost"
	if _, _, err := l.ready(ctx); err != nil {
		now = "Reconnecting failed: " + err.Error()
	}
	return l.failure("the connection to MCP server %q broke during the call of %q: %s\nWhether the call was carried out is not known; check before you repeat it. %s",
		l.server.Name, t.own, about, now)
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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

// offered returns the tools from the server's newest list that pass the filters.
func (o *offer) offered() []tool {
	o.link.listing.Lock()
	listed, version, started := o.link.listed, o.link.version, o.link.started
	o.link.listing.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if version != o.version {
		o.version, o.tools = version, o.choose(listed, started)
	}
	return o.tools
}

// choose applies the filters and omits tools that providers would refuse.
func (o *offer) choose(listed []*sdk.Tool, started string) []tool {
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

// fresh reports whether a connection differs from that of the step's previous call.
func (o *offer) fresh(s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	other := o.used != s
	o.used = s
	return other
}

// call returns the result of a tool or the failure of its server; the error is that of ctx. It
// repeats a call that was not sent, once.
func (o *offer) call(ctx context.Context, t tool, arguments json.RawMessage) (*output, error) {
	l, reconnected := o.link, false
	for retried := false; ; retried = true {
		s, err := l.ready(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return l.failure("%v", err), nil
		}
		reconnected = o.fresh(s) || reconnected
		result, failed := s.call(ctx, l.server.CallTimeout, t.own, arguments)
		switch {
		case failed == nil:
			out := toOutput(result)
			if reconnected {
				out.add("[MCP server %q was reconnected before this call: state from earlier calls, such as an open page, may be lost]", l.server.Name)
			}
			return out, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failed.kind != lost:
			return l.rejection(t, failed), nil
		}
		about := l.drop(s, failed.err)
		if !failed.unsent {
			return o.interruption(ctx, t, about), nil
		}
		if retried {
			return l.failure("MCP server %q did not take the call of %q: %s", l.server.Name, t.own, about), nil
		}
	}
}

// interruption reconnects the server after its connection broke during a call, and reports both
// events.
func (o *offer) interruption(ctx context.Context, t tool, about string) *output {
	l, now := o.link, "The server was reconnected; state from earlier calls, such as an open page, may be lost"
	if s, err := l.ready(ctx); err != nil {
		now = "Reconnecting failed: " + err.Error()
	} else {
		o.fresh(s)
	}
	return l.failure("the connection to MCP server %q broke during the call of %q: %s\nWhether the call was carried out is not known; check before you repeat it. %s",
		l.server.Name, t.own, about, now)
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
)

// call carries out a call of a tool. What goes wrong is told to the model; the
// error is the end of ctx.
func (l *link) call(ctx context.Context, t tool, arguments json.RawMessage) (*output, error) {
	renewed := false
	for again := false; ; again = true {
		s, anew, err := l.ready(ctx)
		if err != nil {
			return l.unreachable(ctx, err)
		}
		renewed = renewed || anew
		result, failed := s.call(ctx, l.server.CallTimeout, t.own, arguments)
		switch {
		case failed == nil:
			told := read(result)
			if renewed {
				told.parts = append(told.parts, l.anew())
			}
			return told, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failed.kind != lost:
			return l.told(t, failed), nil
		}
		about := l.drop(s, failed.err)
		if !failed.unsent {
			return l.unknown(ctx, t, about), nil
		}
		if again {
			return l.objection("MCP server %q did not take the call of %q: %s", l.server.Name, t.own, about), nil
		}
	}
}

// anew tells what a new connection means.
func (l *link) anew() string {
	return fmt.Sprintf("[MCP server %q was connected anew before this call: what it held from earlier calls, such as an open page, may be gone]", l.server.Name)
}

// objection is an output that says what went wrong.
func (l *link) objection(format string, args ...any) *output {
	o := &output{}
	o.parts = append(o.parts, "error: "+l.server.masked(fmt.Sprintf(format, args...)))
	return o
}

func (l *link) unreachable(ctx context.Context, err error) (*output, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l.objection("%v", err), nil
}

// told is a fault after which the connection is good.
func (l *link) told(t tool, f *fault) *output {
	said := plain(f.err.Error())
	switch {
	case f.kind == late:
		return l.objection("%q of MCP server %q took longer than %s; the server goes on with it. Look at what it has done before you call it again",
			t.own, l.server.Name, l.server.CallTimeout)
	case f.kind == busy && !f.unsent:
		return l.objection("MCP server %q gave no usable answer to %q: %s. Whether the call was carried out is not known; look before you repeat it",
			l.server.Name, t.own, said)
	}
	return l.objection("MCP server %q refused the call of %q: %s", l.server.Name, t.own, said)
}

// unknown is the loss of the connection during a call. The server is connected
// again at once, so that the model knows what to expect.
func (l *link) unknown(ctx context.Context, t tool, about string) *output {
	now := "The server was connected anew; what it held from earlier calls, such as an open page, may be gone"
	if _, _, err := l.ready(ctx); err != nil {
		now = "Connecting it anew failed: " + err.Error()
	}
	return l.objection("the connection to MCP server %q broke during the call of %q: %s\nWhether the call was carried out is not known; look before you repeat it. %s",
		l.server.Name, t.own, about, now)
}

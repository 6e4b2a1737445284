package mcp

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// endGrace is how long an error of a call and the end of its connection may be
// apart when they are the same thing.
const endGrace = 200 * time.Millisecond

// fault is why a call has no result.
type fault struct {
	err  error
	kind kind

	// unsent: the server has not carried the call out, and will not.
	unsent bool
}

// kind says what a fault means for the connection.
type kind int

const (
	late    kind = iota // the call's time is over; the connection is good
	refused             // the server said no; the connection is good
	busy                // the server could not say; the connection is good
	lost                // the connection is of no more use
)

// judge classifies what the SDK returned for a call.
func (s *session) judge(err error, called *track, expired bool) *fault {
	f := &fault{err: err, unsent: !called.sent.Load()}
	status := int(called.status.Load())
	var answer *jsonrpc.Error
	switch {
	case expired:
		f.kind = late
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.kind = refused
	case status == http.StatusTooManyRequests, status >= 500:
		f.kind = busy
	case errors.As(err, &answer) && (answer.Code == jsonrpc.CodeInvalidParams || answer.Code == jsonrpc.CodeMethodNotFound):
		f.kind = refused
	case status >= 300:
		// It does not know the session, as after a restart of its own.
		f.kind, f.unsent = lost, true
	case errors.As(err, &answer) && !own(answer) && !errors.Is(err, sdk.ErrConnectionClosed):
		f.kind = refused
	case s.process != nil && !within(endGrace, s.ended):
		f.kind = busy // such as an answer that cannot be read
	default:
		f.kind = lost
	}
	return f
}

// own says whether an error only looks like an answer: the SDK has such errors
// of its own, for closing connections and rejected requests.
func own(e *jsonrpc.Error) bool {
	return slices.Contains([]int64{-32003, -32004, -32005}, e.Code)
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// olderProtocol is spoken with programs that end when they are asked for the
	// newest one.
	olderProtocol = "2025-11-25"

	// maxPages and maxTools bound one server's list of tools.
	maxPages = 100
	maxTools = 512

	// listTimeout bounds fetching a list that changed.
	listTimeout = 30 * time.Second
)

// session is one connection to a server.
type session struct {
	client  *sdk.ClientSession
	changes *changes
	process *process      // nil if the server is an address
	ended   chan struct{} // closed when the connection has broken or was closed
	life    context.CancelCauseFunc
	cause   func() error // why life ended, nil if it has not
}

// connectError is a connection that broke before it was one.
type connectError struct {
	err    error
	exited bool // the program ran, and ended by itself
	about  string
}

func (e *connectError) Error() string { return e.err.Error() + e.about }

func (e *connectError) Unwrap() error { return e.err }

// connect makes a connection and fetches the list of tools.
func connect(ctx context.Context, s Server, dir, home, mark string) (*session, []*sdk.Tool, error) {
	late := fmt.Errorf("it was not ready within %s", s.StartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, late)
	defer cancel()
	made, tools, err := attempt(ctx, s, dir, home, mark, "")
	var broken *connectError
	if errors.As(err, &broken) && broken.exited && ctx.Err() == nil {
		made, tools, err = attempt(ctx, s, dir, home, mark, olderProtocol)
	}
	return made, tools, err
}

// attempt connects once. An empty protocol means the newest.
func attempt(ctx context.Context, server Server, dir, home, mark, protocol string) (*session, []*sdk.Tool, error) {
	life, end := context.WithCancelCause(context.Background())
	s := &session{changes: newChanges(), ended: make(chan struct{}), life: end, cause: func() error { return context.Cause(life) }}
	transport, err := s.transport(life, server, dir, home, mark)
	if err != nil {
		end(err)
		return nil, nil, err
	}
	unbound := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer unbound()
	client := sdk.NewClient(&sdk.Implementation{Name: "conclave", Version: "1"}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.changes.due() },
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
	})
	var tools []*sdk.Tool
	s.client, err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err == nil {
		go func() {
			_ = s.client.Wait() // calls in flight are told why
			close(s.ended)
		}()
		tools, err = list(ctx, s.client)
	}
	if err != nil {
		err = s.explained(ctx, err)
		s.close()
		return nil, nil, err
	}
	return s, tools, nil
}

func (s *session) transport(life context.Context, server Server, dir, home, mark string) (sdk.Transport, error) {
	if server.URL != "" {
		return newHTTP(life, s.life, server)
	}
	p, err := start(server, dir, home, mark)
	if err != nil {
		return nil, err
	}
	s.process = p
	conn := newStdio(p, s.changes)
	context.AfterFunc(life, func() { _ = conn.Close() }) // it has no error
	return conn, nil
}

// explained says of a failed attempt what the SDK does not know.
func (s *session) explained(ctx context.Context, err error) error {
	e := &connectError{err: err}
	if s.process != nil {
		// Before its end is ours, it may have been its own.
		e.exited = within(drainGrace, s.process.exited)
		e.about = s.process.ended()
	}
	if cause := s.cause(); cause != nil {
		e.err = cause
	}
	if ctx.Err() != nil {
		e.err = context.Cause(ctx)
	}
	return e
}

// list fetches all the tools.
func list(ctx context.Context, client *sdk.ClientSession) ([]*sdk.Tool, error) {
	var tools []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := client.ListTools(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("listing its tools: %w", err)
		}
		tools = append(tools, page.Tools...)
		if len(tools) > maxTools {
			return nil, fmt.Errorf("listing its tools: it has more than %d", maxTools)
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("listing its tools: more than %d pages", maxPages)
}

// follow fetches the list whenever it has changed, as long as the connection
// lasts. A list that cannot be fetched changes nothing.
func (s *session) follow(log *slog.Logger, offer func([]*sdk.Tool)) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.ended
		cancel()
	}()
	go s.changes.follow(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		tools, err := list(ctx, s.client)
		if err != nil {
			log.Warn("the tools changed, but cannot be listed; the old list stays", "error", err)
			return
		}
		offer(tools)
	})
}

// call sends one call and waits for its answer, no longer than limit. When the
// answer is there, so is the list of tools that changed with it.
func (s *session) call(ctx context.Context, limit time.Duration, tool string, arguments json.RawMessage) (*sdk.CallToolResult, *fault) {
	calling, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	calling, called := tracked(calling)
	result, err := s.client.CallTool(calling, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, s.judge(err, called, calling.Err() != nil)
	}
	s.changes.wait(ctx)
	return result, nil
}

// over says whether the connection is known to be of no more use.
func (s *session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.cause() != nil
	}
}

// close ends the connection, and the program with everything it started.
func (s *session) close() {
	closed := make(chan struct{})
	closing := func() {
		defer close(closed)
		if s.client != nil {
			_ = s.client.Close() // its error is about a server that is done with
		}
	}
	if s.process != nil {
		s.life(errors.New("closed"))
		s.process.stop()
		closing()
		return
	}
	go closing()
	within(goodbyeTimeout, closed)
	s.life(errors.New("closed"))
	within(time.Second, closed)
}

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

// track follows one call through the SDK down to the wire.
type track struct {
	sent   atomic.Bool  // the server may have got it
	status atomic.Int64 // of the last HTTP response, 0 if there was none
}

type trackKey struct{}

func tracked(ctx context.Context) (context.Context, *track) {
	t := new(track)
	return context.WithValue(ctx, trackKey{}, t), t
}

// trackOf returns the track of a call, or one that nobody reads.
func trackOf(ctx context.Context) *track {
	if t, ok := ctx.Value(trackKey{}).(*track); ok {
		return t
	}
	return new(track)
}

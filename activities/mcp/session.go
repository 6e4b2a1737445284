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
	// olderProtocol is offered to programs that exit when offered the newest one.
	olderProtocol = "2025-11-25"

	// maxPages and maxTools bound one server's list of tools.
	maxPages = 100
	maxTools = 512

	// listTimeout bounds fetching a list that changed.
	listTimeout = 30 * time.Second

	// endGrace is the time after an error of a call within which the connection's end counts as its
	// cause.
	endGrace = 200 * time.Millisecond
)

var errClosed = errors.New("closed")

type session struct {
	client  *sdk.ClientSession
	changes *changes
	process *process      // nil for a server with an address
	ended   chan struct{} // closed when the connection has broken or was closed

	// life ends with the connection; end ends it, and its cause says why.
	life context.Context
	end  context.CancelCauseFunc
}

// connectError reports a connection that failed while it was made.
type connectError struct {
	err    error
	exited bool   // the program ran, and exited by itself
	about  string // the program's end and last output
}

func (e *connectError) Error() string { return e.err.Error() + e.about }

func (e *connectError) Unwrap() error { return e.err }

// connect makes a connection and fetches the list of tools.
func connect(ctx context.Context, s Server, dir, home, mark string) (*session, []*sdk.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, fmt.Errorf("it was not ready within %s", s.StartTimeout))
	defer cancel()
	made, tools, err := connectWith(ctx, s, dir, home, mark, "")
	if broken, ok := errors.AsType[*connectError](err); ok && broken.exited && ctx.Err() == nil {
		return connectWith(ctx, s, dir, home, mark, olderProtocol)
	}
	return made, tools, err
}

// connectWith connects with a version of the protocol, "" for the newest.
func connectWith(ctx context.Context, server Server, dir, home, mark, protocol string) (*session, []*sdk.Tool, error) {
	life, end := context.WithCancelCause(context.Background())
	s := &session{changes: newChanges(), ended: make(chan struct{}), life: life, end: end}
	transport, err := s.transport(server, dir, home, mark)
	if err != nil {
		end(err)
		return nil, nil, err
	}
	release := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer release()
	client := sdk.NewClient(&sdk.Implementation{Name: "conclave", Version: "1"}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.changes.due() },
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
	})
	var tools []*sdk.Tool
	s.client, err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err == nil {
		go func() {
			_ = s.client.Wait() // calls in flight get its error
			close(s.ended)
		}()
		tools, err = list(ctx, s.client)
	}
	if err != nil {
		err = s.explain(ctx, err)
		s.close()
		return nil, nil, err
	}
	return s, tools, nil
}

func (s *session) transport(server Server, dir, home, mark string) (sdk.Transport, error) {
	if server.URL != "" {
		return newHTTP(s.life, s.end, server)
	}
	p, err := start(server, dir, home, mark)
	if err != nil {
		return nil, err
	}
	s.process = p
	conn := newStdio(p, s.changes)
	context.AfterFunc(s.life, func() { _ = conn.Close() }) // never fails
	return conn, nil
}

// explain adds the cause and the program's end to the error of a failed connection.
func (s *session) explain(ctx context.Context, err error) error {
	e := &connectError{err: err}
	if s.process != nil {
		// A program that exits after the close did not exit by itself.
		e.exited = within(drainGrace, s.process.exited)
		e.about = s.process.report()
	}
	if cause := context.Cause(s.life); cause != nil {
		e.err = cause
	}
	if ctx.Err() != nil {
		e.err = context.Cause(ctx)
	}
	return e
}

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

// follow offers the list of tools whenever it has changed, until the connection ends.
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

// call sends one call, and waits for its result and for changes to the list of tools during the call.
func (s *session) call(ctx context.Context, limit time.Duration, tool string, arguments json.RawMessage) (*sdk.CallToolResult, *fault) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	called := new(track)
	limited = context.WithValue(limited, trackKey{}, called)
	result, err := s.client.CallTool(limited, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, s.classify(err, called, limited.Err() != nil)
	}
	s.changes.wait(ctx)
	return result, nil
}

func (s *session) broken() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.life.Err() != nil
	}
}

// close ends the connection, and the program with everything it started.
func (s *session) close() {
	closed := make(chan struct{})
	closeClient := func() {
		defer close(closed)
		if s.client != nil {
			_ = s.client.Close() // the server is not used again
		}
	}
	if s.process != nil {
		s.end(errClosed)
		s.process.stop()
		closeClient()
		return
	}
	go closeClient()
	within(goodbyeTimeout, closed)
	s.end(errClosed)
	within(time.Second, closed)
}

type fault struct {
	err    error
	kind   faultKind
	unsent bool // the server has not carried out the call, and will not
}

// faultKind is the consequence of a fault for the connection, which only lost makes unusable.
type faultKind int

const (
	late    faultKind = iota // the call's time is over
	refused                  // the server rejected the call
	busy                     // the server gave no usable response
	lost                     // the connection is unusable
)

func (s *session) classify(err error, called *track, expired bool) *fault {
	f := &fault{err: err, unsent: !called.sent.Load()}
	status := int(called.status.Load())
	response, responded := errors.AsType[*jsonrpc.Error](err)
	switch {
	case expired:
		f.kind = late
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.kind = refused
	case status == http.StatusTooManyRequests, status >= 500:
		f.kind = busy
	case responded && (response.Code == jsonrpc.CodeInvalidParams || response.Code == jsonrpc.CodeMethodNotFound):
		f.kind = refused
	case status >= 300:
		// The server does not know the session, as after its restart.
		f.kind, f.unsent = lost, true
	case responded && !fromSDK(response) && !errors.Is(err, sdk.ErrConnectionClosed):
		f.kind = refused
	case s.process != nil && !within(endGrace, s.ended):
		f.kind = busy // such as a malformed response
	default:
		f.kind = lost
	}
	return f
}

// fromSDK reports whether an error has a code of the SDK itself, for closed connections and rejections.
func fromSDK(e *jsonrpc.Error) bool {
	return slices.Contains([]int64{-32003, -32004, -32005}, e.Code)
}

// track follows one call through the SDK to the transport.
type track struct {
	sent   atomic.Bool  // the server may have received it
	status atomic.Int64 // of the last HTTP response, 0 before the first
}

type trackKey struct{}

// trackOf returns the track of a call, or an unused one.
func trackOf(ctx context.Context) *track {
	if t, ok := ctx.Value(trackKey{}).(*track); ok {
		return t
	}
	return new(track)
}

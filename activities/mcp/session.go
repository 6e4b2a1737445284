package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// olderProtocol is the version offered to programs that exit when offered the newest one.
	olderProtocol = "2025-11-25"

	// maxPages and maxTools bound the list of tools of one server.
	maxPages = 100
	maxTools = 512

	// listTimeout bounds the fetch of a changed list.
	listTimeout = 30 * time.Second

	// endGrace is the time after the error of a call during which the end of the connection counts
	// as the error's cause.
	endGrace = 200 * time.Millisecond
)

var errClosed = errors.New("closed")

type session struct {
	client  *sdk.ClientSession
	changes *changes
	process *process      // nil for a server with an address
	ended   chan struct{} // closed when the connection has broken or was closed

	// life is cancelled when the connection ends, with the reason as its cause; end cancels it.
	life context.Context
	end  context.CancelCauseFunc
}

// connectError reports a connection attempt that failed.
type connectError struct {
	err    error
	exited bool   // the program ran, and exited by itself
	about  string // the program's end and last output
}

func (e *connectError) Error() string { return e.err.Error() + e.about }

func (e *connectError) Unwrap() error { return e.err }

func connectServer(ctx context.Context, s Server, dir, home, mark string) (*session, []*sdk.Tool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.StartTimeout, fmt.Errorf("it was not ready within %s", s.StartTimeout))
	defer cancel()
	made, tools, err := connectWith(ctx, s, dir, home, mark, "")
	if broken, ok := errors.AsType[*connectError](err); ok && broken.exited && ctx.Err() == nil {
		return connectWith(ctx, s, dir, home, mark, olderProtocol)
	}
	return made, tools, err
}

// connectWith connects with a version of the protocol; "" means the newest.
func connectWith(ctx context.Context, server Server, dir, home, mark, protocol string) (*session, []*sdk.Tool, error) {
	server = server.inWorkspace(dir)
	life, end := context.WithCancelCause(context.Background())
	s := &session{changes: &changes{wake: make(chan struct{}, 1), settled: make(chan struct{})}, ended: make(chan struct{}), life: life, end: end}
	transport, err := s.newTransport(server, dir, home, mark)
	if err != nil {
		end(err)
		return nil, nil, err
	}
	release := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer release()
	var tools []*sdk.Tool
	s.client, err = s.newClient(server, dir).Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err == nil {
		go func() {
			_ = s.client.Wait() // calls in flight get its error
			close(s.ended)
		}()
		tools, err = listTools(ctx, s.client)
	}
	if err != nil {
		err = s.explainFailure(ctx, err)
		s.close()
		return nil, nil, err
	}
	return s, tools, nil
}

// newClient returns a client that offers a program the workspace as its first root, from which servers
// take relative names of files, and the directories among its arguments, which roots replace.
//
//nolint:staticcheck // roots are deprecated in favour of configuration, which CONCLAVE_WORKSPACE is; the servers of today know roots only
func (s *session) newClient(server Server, workspace string) *sdk.Client {
	capabilities := &sdk.ClientCapabilities{}
	if server.Command != "" {
		capabilities.RootsV2 = &sdk.RootCapabilities{}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "conclave", Version: "1"}, &sdk.ClientOptions{
		Capabilities:           capabilities,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.changes.requestFetch() },
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
	})
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
			if method != "roots/list" {
				return next(ctx, method, request)
			}
			offered := &sdk.ListRootsResult{} // in this order; AddRoots would sort them
			for _, dir := range server.rootDirectories(workspace) {
				offered.Roots = append(offered.Roots, &sdk.Root{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()})
			}
			return offered, nil
		}
	})
	return client
}

func (s *session) newTransport(server Server, dir, home, mark string) (sdk.Transport, error) {
	if server.URL != "" {
		return newHTTP(s.life, s.end, server)
	}
	p, err := startProgram(server, dir, home, mark)
	if err != nil {
		return nil, err
	}
	s.process = p
	conn := newStdio(p, s.changes)
	context.AfterFunc(s.life, func() { _ = conn.Close() }) // the call never fails
	return conn, nil
}

func (s *session) explainFailure(ctx context.Context, err error) error {
	e := &connectError{err: err}
	if s.process != nil {
		// Check this before closing the connection, which makes the program exit.
		e.exited = closedWithin(drainGrace, s.process.exited)
		e.about = s.process.describeEnd()
	}
	if cause := context.Cause(s.life); cause != nil {
		e.err = cause
	}
	if ctx.Err() != nil {
		e.err = context.Cause(ctx)
	}
	return e
}

func listTools(ctx context.Context, client *sdk.ClientSession) ([]*sdk.Tool, error) {
	var tools []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := client.ListTools(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		tools = append(tools, page.Tools...)
		if len(tools) > maxTools {
			return nil, fmt.Errorf("list its tools: it has more than %d", maxTools)
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("list its tools: more than %d pages", maxPages)
}

// followTools calls offer with the list of tools whenever it has changed, until the connection ends.
func (s *session) followTools(log *slog.Logger, offer func([]*sdk.Tool)) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.ended
		cancel()
	}()
	go s.changes.fetchWhenDue(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		tools, err := listTools(ctx, s.client)
		if err != nil {
			log.Warn("the tools changed, but cannot be listed; the old list stays", "error", err)
			return
		}
		offer(tools)
	})
}

// callTool makes a tool call and waits for its result, and then for changes to the list of tools that
// were announced during the call.
func (s *session) callTool(ctx context.Context, limit time.Duration, tool string, arguments json.RawMessage) (*sdk.CallToolResult, *fault) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	called := new(track)
	limited = context.WithValue(limited, trackKey{}, called)
	result, err := s.client.CallTool(limited, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, s.classifyFault(err, called, limited.Err() != nil)
	}
	s.changes.awaitFetch(ctx)
	return result, nil
}

func (s *session) isBroken() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.life.Err() != nil
	}
}

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
	closedWithin(goodbyeTimeout, closed)
	s.end(errClosed)
	closedWithin(time.Second, closed)
}

type fault struct {
	err    error
	kind   faultKind
	unsent bool // the server has not carried out the call, and will not
}

// faultKind is the kind of a fault. Only lost makes the connection unusable.
type faultKind int

const (
	late    faultKind = iota // the call exceeded its time limit
	refused                  // the server rejected the call
	busy                     // the server gave no usable response
	lost                     // the connection is unusable
)

func (s *session) classifyFault(err error, called *track, expired bool) *fault {
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
		// The server does not know the session, for example because it was restarted.
		f.kind, f.unsent = lost, true
	case responded && !slices.Contains(fromSDK, response.Code) && !errors.Is(err, sdk.ErrConnectionClosed):
		f.kind = refused
	case s.process != nil && !closedWithin(endGrace, s.ended):
		f.kind = busy // such as a malformed response
	default:
		f.kind = lost
	}
	return f
}

// fromSDK are the codes of errors that the SDK itself creates, for a closed connection or a rejection.
var fromSDK = []int64{-32003, -32004, -32005}

// track records how far the transport got with one call.
type track struct {
	sent   atomic.Bool  // the server may have received it
	status atomic.Int64 // status of the last HTTP response, 0 before the first
}

type trackKey struct{}

// trackOf returns the track of the call of ctx, or a new one outside a call.
func trackOf(ctx context.Context) *track {
	if t, ok := ctx.Value(trackKey{}).(*track); ok {
		return t
	}
	return new(track)
}

// maxSettle bounds the time that a finished call waits for a changed list of tools.
const maxSettle = 10 * time.Second

// changes combines notices of a changed list of tools into as few fetches as possible.
type changes struct {
	mu      sync.Mutex
	seen    int           // number of changes announced
	fetched int           // changes covered by a finished fetch
	passed  bool          // the SDK has a notice that it has not handled
	wake    chan struct{} // holds one value when a fetch is due
	settled chan struct{} // closed and replaced when fetched grows
}

// announceChange records a notice and reports whether to pass it on to the SDK, which gets one at a time.
func (c *changes) announceChange() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	first := !c.passed
	c.passed = true
	return first
}

// requestFetch requests a fetch. It is called after the SDK has dropped its cached list.
func (c *changes) requestFetch() {
	c.mu.Lock()
	if !c.passed { // over HTTP, announce is not called
		c.seen++
	}
	c.passed = false
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *changes) fetchWhenDue(ctx context.Context, fetch func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		c.mu.Lock()
		seen := c.seen
		c.mu.Unlock()
		fetch(ctx)
		c.markFetched(seen)
	}
}

func (c *changes) markFetched(seen int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched = max(c.fetched, seen)
	close(c.settled)
	c.settled = make(chan struct{})
}

// awaitFetch blocks until all changes announced so far are fetched. After maxSettle it gives up and
// counts them as fetched.
func (c *changes) awaitFetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	c.mu.Lock()
	seen := c.seen
	c.mu.Unlock()
	for {
		c.mu.Lock()
		done, settled := c.fetched >= seen, c.settled
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-settled:
		case <-ctx.Done():
			c.markFetched(seen)
		}
	}
}

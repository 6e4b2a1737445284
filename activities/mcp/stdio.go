package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxMessage bounds a single message from a server, in bytes.
	maxMessage = 32 << 20

	// maxNoise bounds the output of one connection that is not part of a message, such as a banner, in bytes.
	maxNoise = 1 << 20

	// maxRequests bounds the number of requests from a server that await a response.
	maxRequests = 64

	// probeTimeout bounds the wait for the response to the probe for the newest protocol; some
	// servers never send one.
	probeTimeout = 10 * time.Second
)

// stdio is the connection to a program, with one JSON-RPC message per line. Unlike the SDK's IOTransport it
// skips other lines, drops notifications, obeys the context of a write, and records whether a call was sent.
type stdio struct {
	process  *process
	changes  *changes
	incoming chan received
	writes   chan write
	requests atomic.Int64 // requests of the server that await a response

	closing sync.Once
	closed  chan struct{}
}

// received is a message from the server, or the error that ended the connection.
type received struct {
	message jsonrpc.Message
	err     error
}

type write struct {
	data []byte
	done chan error
}

func newStdio(p *process, c *changes) *stdio {
	s := &stdio{process: p, changes: c, incoming: make(chan received), writes: make(chan write), closed: make(chan struct{})}
	go func() { s.deliverMessage(received{err: s.readMessages()}) }()
	go s.writeLoop()
	return s
}

// Connect implements the SDK's Transport.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements the SDK's Connection. A pipe has no session ID.
func (s *stdio) SessionID() string { return "" }

// readMessages delivers the server's messages until reading fails, and returns that error.
func (s *stdio) readMessages() error {
	lines := bufio.NewScanner(s.process.out)
	lines.Buffer(nil, maxMessage)
	for noise := 0; lines.Scan(); {
		line := bytes.TrimSpace(lines.Bytes())
		if !bytes.HasPrefix(line, []byte("{")) {
			_, _ = s.process.tail.Write(append(bytes.Clone(line), '\n'))
			if noise += len(line) + 1; noise > maxNoise {
				return errors.New("it writes lines to standard output that are not MCP messages")
			}
			continue
		}
		message, wanted, err := s.decodeMessage(bytes.Clone(line)) // the scanner reuses its buffer
		if err != nil {
			return err
		}
		if wanted && !s.deliverMessage(received{message: message}) {
			return io.ErrClosedPipe
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("it sent a message longer than %d MiB", maxMessage>>20)
	case err != nil:
		return err
	}
	return io.EOF
}

// deliverMessage passes a message to Read. It returns false if the connection is closed.
func (s *stdio) deliverMessage(r received) bool {
	select {
	case s.incoming <- r:
		return true
	case <-s.closed:
		return false
	}
}

// decodeMessage parses a message and reports whether the SDK needs it. A repeated notice of changed tools
// is not needed.
func (s *stdio) decodeMessage(line []byte) (message jsonrpc.Message, wanted bool, err error) {
	message, err = jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, false, fmt.Errorf("it sent a line that is not an MCP message: %w", err)
	}
	request, ok := message.(*jsonrpc.Request)
	switch {
	case !ok:
		return message, true, nil
	case request.IsCall():
		if s.requests.Add(1) > maxRequests {
			return nil, false, errors.New("it sends requests faster than it reads the responses")
		}
		return message, true, nil
	}
	return message, request.Method == "notifications/tools/list_changed" && s.changes.announceChange(), nil
}

// Read implements the SDK's Connection.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closed:
		return nil, io.EOF
	case r := <-s.incoming:
		return r.message, r.err
	}
}

// Write implements the SDK's Connection. If ctx ends first, the message may still be written later.
func (s *stdio) Write(ctx context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	switch m := message.(type) {
	case *jsonrpc.Response:
		s.requests.Add(-1)
	case *jsonrpc.Request:
		if m.Method == "server/discover" {
			// The probe is answered after a while in any case. The SDK ignores a second response.
			refusal := &jsonrpc.Response{ID: m.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no response"}}
			time.AfterFunc(probeTimeout, func() { s.deliverMessage(received{message: refusal}) })
		}
	}
	w := write{append(data, '\n'), make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return io.ErrClosedPipe
	}
	// A failed write leaves the line incomplete, and the server ignores it. In all other cases the
	// call counts as sent.
	err = io.ErrClosedPipe
	select {
	case err = <-w.done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.closed:
	}
	trackOf(ctx).sent.Store(true)
	return err
}

func (s *stdio) writeLoop() {
	for {
		select {
		case w := <-s.writes:
			_, err := s.process.in.Write(w.data)
			w.done <- err
		case <-s.closed:
			return
		}
	}
}

// Close implements the SDK's Connection by closing the server's input.
func (s *stdio) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.process.in.Close()
	})
	return nil
}

const (
	// maxStream, in bytes, and maxLines bound one event stream: a response, or the server's own messages.
	maxStream = 2 * maxMessage
	maxLines  = 200_000

	// maxRefusal bounds the body of an error response, in bytes.
	maxRefusal = 64 << 10

	// headTimeout bounds the wait for the headers of a response, except for tool calls.
	headTimeout = 5 * time.Second

	// goodbyeTimeout bounds the request that ends a session.
	goodbyeTimeout = 1500 * time.Millisecond

	// streamRetries is the number of times that the SDK resumes a broken stream.
	streamRetries = 1
)

// newHTTP returns the transport to an address. If the server floods it, the transport calls end
// with the cause, which ends life.
func newHTTP(life context.Context, end context.CancelCauseFunc, s Server) (*sdk.StreamableClientTransport, error) {
	endpoint, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	calls := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
		IdleConnTimeout:     90 * time.Second,
	}
	others := calls.Clone()
	others.ResponseHeaderTimeout = headTimeout
	context.AfterFunc(life, func() {
		calls.CloseIdleConnections()
		others.CloseIdleConnections()
	})
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL,
		HTTPClient: &http.Client{
			Transport:     &roundTripper{endpoint: endpoint, token: s.Token, calls: calls, others: others, life: life, end: end},
			CheckRedirect: refuseRedirect,
		},
		MaxRetries:   streamRetries,
		MaxEventSize: maxMessage,
	}, nil
}

func refuseRedirect(req *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed; if that is right, give it as url", req.URL.Redacted())
}

// roundTripper bounds requests in time and size, and sends the token to the server's address only.
type roundTripper struct {
	endpoint      *url.URL
	token         string
	calls, others http.RoundTripper // clients for tool calls, which have a deadline, and for other requests
	life          context.Context
	end           context.CancelCauseFunc
}

func (c *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := 24 * time.Hour // more than any stream; calls have their own deadline
	if req.Method == http.MethodDelete {
		limit = goodbyeTimeout
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	stop := context.AfterFunc(c.life, cancel)
	release := func() {
		stop()
		cancel()
	}
	called := trackOf(ctx)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { called.sent.Store(true) }})
	sent := req.Clone(ctx)
	if to := c.endpoint; c.token != "" && req.URL.Scheme == to.Scheme && req.URL.Host == to.Host && req.URL.Path == to.Path {
		sent.Header.Set("Authorization", "Bearer "+c.token)
	}
	transport := c.others
	if _, ok := req.Context().Deadline(); ok {
		transport = c.calls
	}
	resp, err := transport.RoundTrip(sent)
	if err != nil {
		release()
		return c.withoutStream(req, err)
	}
	if req.Method == http.MethodPost {
		called.status.CompareAndSwap(0, int64(resp.StatusCode))
	}
	resp.Body = c.boundBody(resp, release)
	return resp, nil
}

// withoutStream handles a timeout of the server's own stream, for which the SDK would wait, as if
// the server did not offer that stream.
func (c *roundTripper) withoutStream(req *http.Request, err error) (*http.Response, error) {
	slow, ok := errors.AsType[net.Error](err)
	if req.Method == http.MethodGet && ok && slow.Timeout() && req.Context().Err() == nil {
		return &http.Response{
			StatusCode: http.StatusMethodNotAllowed, Status: "405 no stream within its time",
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: make(http.Header), Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, err
}

type body struct {
	io.ReadCloser
	room, lines int // bytes and lines left
	exceeded    func() error
	release     func()
}

func (c *roundTripper) boundBody(resp *http.Response, release func()) *body {
	b := &body{ReadCloser: resp.Body, release: release, room: maxMessage, lines: maxMessage}
	over := fmt.Errorf("it sent a message longer than %d MiB", maxMessage>>20)
	switch {
	case resp.StatusCode >= 300:
		b.room, b.lines = maxRefusal, maxRefusal
		b.exceeded = func() error { return io.EOF }
		return b
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		b.room, b.lines = maxStream, maxLines
		over = errors.New("it sent too many events on one stream")
	}
	b.exceeded = func() error {
		c.end(over)
		return over
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.room <= 0 || b.lines <= 0 {
		return 0, b.exceeded()
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.room)])
	b.room -= n
	b.lines -= bytes.Count(p[:n], []byte("\n"))
	return n, err
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

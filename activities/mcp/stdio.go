package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxMessage bounds a single message from a server, in bytes.
	maxMessage = 32 << 20

	// maxNoise bounds the output of one connection that is not part of a message, such as a banner,
	// in bytes.
	maxNoise = 1 << 20

	// maxRequests bounds the number of requests from a server that await a response.
	maxRequests = 64

	// probeTimeout bounds the wait for the response to the probe for the newest protocol; some
	// servers never send one.
	probeTimeout = 10 * time.Second
)

// stdio is the connection to a program, with one JSON-RPC message per line. Unlike the SDK's
// IOTransport it skips other lines, drops notifications, obeys the context of a write, and records
// whether a call was sent.
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
	go func() { s.deliver(received{err: s.readMessages()}) }()
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
		message, wanted, err := s.decode(bytes.Clone(line)) // the scanner reuses its buffer
		if err != nil {
			return err
		}
		if wanted && !s.deliver(received{message: message}) {
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

// deliver passes a message to Read. It returns false if the connection is closed.
func (s *stdio) deliver(r received) bool {
	select {
	case s.incoming <- r:
		return true
	case <-s.closed:
		return false
	}
}

// decode parses a message and reports whether the SDK needs it. A repeated notice of changed tools
// is not needed.
func (s *stdio) decode(line []byte) (message jsonrpc.Message, wanted bool, err error) {
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
	return message, request.Method == "notifications/tools/list_changed" && s.changes.announce(), nil
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
		return fmt.Errorf("encoding a message: %w", err)
	}
	switch m := message.(type) {
	case *jsonrpc.Response:
		s.requests.Add(-1)
	case *jsonrpc.Request:
		if m.Method == "server/discover" {
			s.refuseLater(m.ID)
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

// refuseLater answers the probe with a refusal after probeTimeout. The SDK ignores a second
// response.
func (s *stdio) refuseLater(id jsonrpc.ID) {
	refusal := &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no response"}}
	time.AfterFunc(probeTimeout, func() { s.deliver(received{message: refusal}) })
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

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
	// maxMessage bounds one message of a server, in bytes.
	maxMessage = 32 << 20

	// maxNoise bounds what a server writes to standard output that is no message,
	// such as a banner, in bytes of a connection.
	maxNoise = 1 << 20

	// maxAsked is how many requests of a server may wait for their answers.
	maxAsked = 64

	// probeTimeout is how long a server may be silent about the newest protocol
	// before it is taken for an older one: some ignore what they don't know.
	probeTimeout = 10 * time.Second
)

// stdio is the connection to a program: one JSON-RPC message per line. Unlike
// the SDK's own it bounds what is read, overlooks lines that are no messages,
// never blocks a caller beyond its context, and knows what was sent.
type stdio struct {
	process *process
	changes *changes
	lines   chan line
	writes  chan write
	silent  chan jsonrpc.ID // the probe, when its time is over
	asked   atomic.Int64    // requests of the server without an answer

	closing sync.Once
	closed  chan struct{}
}

type line struct {
	data []byte
	err  error
}

type write struct {
	data []byte
	done chan error
}

func newStdio(p *process, c *changes) *stdio {
	s := &stdio{
		process: p, changes: c,
		lines: make(chan line), writes: make(chan write),
		silent: make(chan jsonrpc.ID, 1), closed: make(chan struct{}),
	}
	go s.readLines()
	go s.writeAll()
	return s
}

// Connect implements the SDK's Transport.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements the SDK's Connection; a pipe needs none.
func (s *stdio) SessionID() string { return "" }

// readLines hands on lines that look like messages, until the end.
func (s *stdio) readLines() {
	r := bufio.NewReaderSize(s.process.out, 64<<10)
	for noise := 0; ; {
		data, err := readLine(r)
		if trimmed := bytes.TrimSpace(data); err == nil && (len(trimmed) == 0 || trimmed[0] != '{') {
			if noise += len(data); noise > maxNoise {
				err = errors.New("it writes to standard output what is no MCP message")
			} else {
				_, _ = s.process.tail.Write(data)
				continue
			}
		}
		select {
		case s.lines <- line{data, err}:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads one line, of bounded length.
func readLine(r *bufio.Reader) ([]byte, error) {
	var data []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(data)+len(part) > maxMessage {
			return nil, fmt.Errorf("it sent a message longer than %d MiB", maxMessage>>20)
		}
		data = append(data, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return data, err
		}
	}
}

// Read implements the SDK's Connection.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, io.EOF
		case id := <-s.silent:
			return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}}, nil
		case l := <-s.lines:
			if l.err != nil {
				return nil, l.err
			}
			message, err := jsonrpc.DecodeMessage(l.data)
			if err != nil {
				return nil, fmt.Errorf("it sent a line that is no MCP message: %w", err)
			}
			if wanted, err := s.wanted(message); wanted || err != nil {
				return message, err
			}
		}
	}
}

// wanted says whether the SDK has to see a message. It keeps what it is given
// in a queue without bounds, so that only what leads to something gets there.
func (s *stdio) wanted(message jsonrpc.Message) (bool, error) {
	request, ok := message.(*jsonrpc.Request)
	switch {
	case !ok:
		return true, nil
	case request.IsCall():
		if s.asked.Add(1) > maxAsked {
			return false, errors.New("it asks more than it takes answers to")
		}
		return true, nil
	case request.Method == "notifications/tools/list_changed":
		return s.changes.announce(), nil
	}
	return false, nil
}

// Write implements the SDK's Connection. It returns at the end of ctx even if
// the server does not read; the message is then written when it does.
func (s *stdio) Write(ctx context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	switch m := message.(type) {
	case *jsonrpc.Response:
		s.asked.Add(-1)
	case *jsonrpc.Request:
		if m.Method == "server/discover" {
			s.expect(m.ID)
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
	select {
	case err = <-w.done:
		if err == nil {
			trackOf(ctx).sent.Store(true)
		}
		return err // a message without its end is none to the server
	case <-ctx.Done():
		trackOf(ctx).sent.Store(true)
		return ctx.Err()
	case <-s.closed:
		trackOf(ctx).sent.Store(true)
		return io.ErrClosedPipe
	}
}

// expect answers the probe in the server's place if the server does not.
func (s *stdio) expect(id jsonrpc.ID) {
	time.AfterFunc(probeTimeout, func() {
		select {
		case s.silent <- id:
		default:
		}
	})
}

func (s *stdio) writeAll() {
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

// Close implements the SDK's Connection. It ends the server's input; the
// process is ended by its owner.
func (s *stdio) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.process.in.Close()
	})
	return nil
}

package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Lines returns the transport over standard input and output, which it does not close. It
// answers a line that is no message with an error and goes on; the SDK's own transport ends.
func Lines(in io.Reader, out io.Writer) mcp.Transport {
	w := &lineWriter{out: out}
	return &mcp.IOTransport{Reader: io.NopCloser(&lineReader{in: bufio.NewReader(in), out: w}), Writer: w}
}

// lineReader reads the lines that are messages.
type lineReader struct {
	in   *bufio.Reader
	out  io.Writer // receives the errors
	rest []byte    // rest of the line that is being read

	batches bool // the version of the protocol has them
}

func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.next()
		if refused := r.check(line); refused != nil {
			if _, err := r.out.Write(errorLine(line, refused)); err != nil {
				return 0, err
			}
			line = nil
		}
		if len(line) == 0 && err != nil {
			return 0, err
		}
		r.rest = append(line, '\n')
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next returns the next line without its end. Of a line that is too long it returns the
// beginning, which is longer than the limit.
func (r *lineReader) next() (line []byte, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// check returns the error with which a line is answered; nil for a message and an empty line.
func (r *lineReader) check(line []byte) *jsonrpc.Error {
	if len(line) == 0 {
		return nil
	}
	if len(line) >= mcp.DefaultMaxLineLength {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the line has more than %d bytes; give large material as base or context", mcp.DefaultMaxLineLength-1)}
	}
	messages, refused := messagesIn("line", line, r.batches)
	for _, m := range messages {
		if first, ok := m.(*jsonrpc.Request); ok && first.Method == "initialize" {
			r.batches = hasBatches(first.Params)
		}
	}
	return refused
}

// messagesIn returns the message in a line or a body, or the messages of a batch. If it holds none, the
// error is the answer.
func messagesIn(what string, data []byte, batches bool) ([]jsonrpc.Message, *jsonrpc.Error) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("the %s is not JSON: %v; send one message of JSON-RPC 2.0 as one %[1]s", what, err)}
	}
	all := []json.RawMessage{raw}
	if raw[0] == '[' {
		_ = json.Unmarshal(raw, &all) // the JSON is valid
		if len(all) == 0 || !batches {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the %s is an array; send each message as a %[1]s of its own", what)}
		}
	}
	var messages []jsonrpc.Message
	for _, raw := range all {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("%.80s is not a message of JSON-RPC 2.0; send an object with jsonrpc, method and id", raw)}
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// hasBatches reports whether the version that a client asks for has batches, which later ones
// removed.
func hasBatches(params json.RawMessage) bool {
	var asked struct {
		Version string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(params, &asked) // the server answers wrong parameters
	return asked.Version == "2024-11-05" || asked.Version == "2025-03-26"
}

// errorLine returns the answer to a line. Its id is null unless the line has one.
func errorLine(line []byte, refused *jsonrpc.Error) []byte {
	var request struct {
		ID any `json:"id"`
	}
	_ = json.Unmarshal(line, &request) // a line that is no object has no id
	switch request.ID.(type) {
	case string, float64:
	default:
		request.ID = nil
	}
	data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": request.ID, "error": refused}) // these values can always be encoded
	return append(data, '\n')
}

// lineWriter writes whole lines, one at a time.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

func (*lineWriter) Close() error { return nil }

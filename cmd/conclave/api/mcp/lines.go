package mcp

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
	reader, messages := io.Pipe()
	go func() { messages.CloseWithError(passMessages(bufio.NewReader(in), messages, w)) }()
	return &mcp.IOTransport{Reader: reader, Writer: w}
}

// passMessages passes the lines that are messages on, until the input ends, and answers the others.
func passMessages(in *bufio.Reader, messages, answers io.Writer) error {
	batches := false // the version of the protocol has them
	for {
		line, err := readLine(in)
		if len(line) > 0 {
			found, refused := messagesOf(line, batches)
			for _, m := range found {
				if first, ok := m.(*jsonrpc.Request); ok && first.Method == "initialize" {
					batches = hasBatches(first.Params)
				}
			}
			to, what := messages, append(line, '\n')
			if refused != nil {
				to, what = answers, errorLine(line, refused)
			}
			if _, err := to.Write(what); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns the next line without its end. Of a line that is too long it returns the
// beginning, which is longer than the limit.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// messagesOf returns the message in a line, or the messages of a batch. If it holds none, the error is
// the answer.
func messagesOf(line []byte, batches bool) ([]jsonrpc.Message, *jsonrpc.Error) {
	invalid := func(format string, args ...any) *jsonrpc.Error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	}
	if len(line) >= mcp.DefaultMaxLineLength {
		return nil, invalid("the line has more than %d bytes; give large material as base or context", mcp.DefaultMaxLineLength-1)
	}
	var raw json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("the line is not JSON: %v; send one message of JSON-RPC 2.0 as one line", err)}
	}
	all := []json.RawMessage{raw}
	if raw[0] == '[' {
		_ = json.Unmarshal(raw, &all) // the JSON is valid
		if len(all) == 0 || !batches {
			return nil, invalid("the line is an array; send each message as a line of its own")
		}
	}
	var messages []jsonrpc.Message
	for _, raw := range all {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return nil, invalid("%.80s is not a message of JSON-RPC 2.0; send an object with jsonrpc, method and id", raw)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// hasBatches reports whether the version that a client asks for has batches, which later ones removed.
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

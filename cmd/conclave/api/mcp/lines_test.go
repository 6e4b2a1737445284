package mcp

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/callers"
)

// A line that is not a message gets an error reply, and the next one is served.
func TestLines(t *testing.T) {
	t.Parallel()
	const (
		ping   = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
		pinged = `{"jsonrpc":"2.0","id":7,"result":{}}`
	)
	for line, want := range map[string]string{
		``:                          ``,
		"   \r":                     ``,
		`{not json`:                 `"code":-32700,"message":"the line is not JSON: invalid character`,
		ping + ping:                 `"code":-32700`,
		`Content-Length: 40`:        `"code":-32700`,
		`[]`:                        `"code":-32600,"message":"the line is an array; send each message as a line of its own"`,
		`[1]`:                       `"code":-32600,"message":"the line is an array`,
		`[` + ping + `]`:            `the line is an array`,
		`"x"`:                       `is not a message of JSON-RPC 2.0; send an object with jsonrpc, method and id`,
		`null`:                      `"code":-32600`,
		`{"id":3,"method":"ping"}`:  `"id":3,`,
		`{"jsonrpc":"2.0","id":{}}`: `"id":null,`,
		strings.Repeat("x", mcp.DefaultMaxLineLength): `"code":-32600,"message":"the line has more than 16777215 bytes`,
	} {
		replies := served(t, line+"\n"+ping+"\n", pinged)
		if want == "" {
			require.Len(t, replies, 1, "%.80q", line)
			continue
		}
		require.Len(t, replies, 2, "%.80q", line)
		require.Contains(t, replies[0], want)
		require.NotContains(t, replies[0], "wireDecode")
	}
}

// Versions of the protocol with batches accept them.
func TestLines_batch(t *testing.T) {
	t.Parallel()
	const (
		opened = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		pinged = `[{"jsonrpc":"2.0","id":7,"result":{}}]`
	)
	replies := served(t, opened+"\n[]\n[1]\n"+`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`+"\n", pinged)
	joined := strings.Join(replies, "\n")
	require.Len(t, replies, 4, joined)
	require.Contains(t, joined, "the line is an array")
	require.Contains(t, joined, `"message":"1 is not a message of JSON-RPC 2.0`)
}

// served returns the lines with which a server answers its input, up to the last one.
func served(t *testing.T, input, last string) (replies []string) {
	t.Helper()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	d := callers.New(t).Desk(t)
	go func() { ended <- Run(t.Context(), d, Options{}, Lines(in, out)) }()
	go func() { _, _ = io.WriteString(client, input) }()
	for lines := bufio.NewScanner(answers); !slices.Contains(replies, last) && lines.Scan(); {
		replies = append(replies, lines.Text())
	}
	require.NoError(t, client.Close())
	if err := <-ended; err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	return replies
}

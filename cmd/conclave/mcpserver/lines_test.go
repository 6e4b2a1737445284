package mcpserver

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/desk/desktest"
)

// A line that is no message is answered, and the next one is served.
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
		`[]`:                        `"code":-32600,"message":"the batch has no messages"`,
		`[1]`:                       `"code":-32600,"message":"\"1\" is no message of JSON-RPC 2.0`,
		`"x"`:                       `is no message of JSON-RPC 2.0; send an object with jsonrpc, method and id`,
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

// served returns the lines with which a server answers its input, up to the last one.
func served(t *testing.T, input, last string) (replies []string) {
	t.Helper()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	d := desktest.New(t).Desk(t)
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

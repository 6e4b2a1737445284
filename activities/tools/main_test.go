package tools_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
	"conclave/activities/sandbox"
)

// serve is the argument that makes this program an MCP server.
const serve = "serve-mcp"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serve {
		if err := serveMCP(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		syscall.Exit(0) // without the second that a program with the race detector takes to exit
	}
	os.Exit(m.Run())
}

// serveMCP is a server with the tool greet, whose first call adds the tool leave.
func serveMCP() error {
	server := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "1"}, nil)
	type who struct {
		Name  string `json:"name"`
		Times int    `json:"times,omitempty"` // the name is said
	}
	say := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	sdk.AddTool(server, &sdk.Tool{Name: "greet", Description: "Greets."}, func(_ context.Context, _ *sdk.CallToolRequest, w who) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(server, &sdk.Tool{Name: "leave"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return say("Goodbye."), nil, nil
		})
		return say(fmt.Sprintf("Hello %s, from %s.", strings.Repeat(w.Name, max(1, w.Times)), os.Getenv(mcp.Workspace))), nil, nil
	})
	return server.Run(context.Background(), &sdk.StdioTransport{})
}

// greeter configures that server.
func greeter(t *testing.T) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mcp.Server{Name: "greeter", Command: self, Args: []string{serve}}
}

// host is probed once for all tests.
var host = sync.OnceValue(func() sandbox.Host { return sandbox.Probe(context.Background()) })

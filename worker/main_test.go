package worker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/files/overlay"
)

// serve is the argument that makes this program an MCP server.
const serve = "serve-mcp"

func TestMain(m *testing.M) {
	overlay.RunHolder()
	if len(os.Args) == 2 && os.Args[1] == serve {
		if err := serveMCP(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serveMCP() error {
	server := sdk.NewServer(&sdk.Implementation{Name: "teller", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "tell"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(os.Environ(), "\n")}}}, nil, nil
	})
	return server.Run(context.Background(), &sdk.StdioTransport{})
}

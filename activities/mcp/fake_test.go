package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/activities/mcp"
	"conclave/engine/llm"
)

// asServer is the variable that makes the test binary an MCP server, of the kind
// that is its value.
const asServer = "CONCLAVE_TEST_MCP"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		serve(kind)
		syscall.Exit(0) // without the second that a program with the race detector takes to exit
	}
	os.Exit(m.Run())
}

// serve runs a server on standard input and output.
func serve(kind string) {
	ctx := context.Background()
	switch kind {
	case "worker": // starts a server of its own
		self, _ := os.Executable()
		c, err := mcp.Open(ctx, []mcp.Server{{Name: "deep", Command: self, Env: map[string]string{asServer: "stays"}}}, mcp.Place{Dir: "."})
		if err != nil {
			os.Exit(1)
		}
		out, _ := c.Run(ctx, llm.ToolCall{Name: "mcp__deep__env"})
		fmt.Println(out.Text)
		time.Sleep(time.Hour)
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "deaf":
		for {
			time.Sleep(time.Hour)
		}
	case "exits":
		fmt.Fprintln(os.Stderr, "\x1b[31mno license\x1b[0m for key "+os.Getenv("LICENSE_KEY"))
		os.Exit(3)
	case "noise":
		_, _ = io.Copy(os.Stdout, endless("not JSON\n"))
	case "flood":
		_, _ = io.Copy(os.Stdout, io.MultiReader(strings.NewReader(`{"jsonrpc":"`), endless("xxxxxxxxxxxxxxxx")))
	case "unprobed":
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if strings.Contains(line, "server/discover") {
			os.Exit(1)
		}
		in := io.MultiReader(strings.NewReader(line), os.Stdin)
		_ = tools("unprobed").Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: os.Stdout})
		return
	case "banner":
		fmt.Println("Welcome to the server!\n\n[info] listening on stdio")
	case "waits":
		meet(os.Getenv("MEETING"))
	case "once": // works only at its first start
		started := filepath.Join(os.Getenv("CONCLAVE_WORKSPACE"), "started")
		if _, err := os.Stat(started); err == nil {
			os.Exit(4)
		}
		_ = os.WriteFile(started, nil, 0o600)
	}
	_ = tools(kind).Run(ctx, &sdk.StdioTransport{})
	if kind == "stays" { // after the end of its input
		time.Sleep(time.Hour)
	}
}

// meet waits until four servers have come to the meeting, a directory.
func meet(dir string) {
	_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600)
	for {
		if come, err := os.ReadDir(dir); err != nil || len(come) == 4 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(string(e), max(1, len(p)/len(e)))), nil
}

func text(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

var anything = json.RawMessage(`{"type":"object"}`)

// tools returns a server with a tool for each behaviour of servers.
//
//nolint:funlen // one table
func tools(kind string) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "1"}, nil)
	add := func(name string, schema any, run func(args map[string]any) *sdk.CallToolResult) {
		server.AddTool(&sdk.Tool{Name: name, Description: name + " of " + kind, InputSchema: schema}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args map[string]any
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return run(args), nil
		})
	}
	add("echo", json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer"}},"required":["text"]}`),
		func(args map[string]any) *sdk.CallToolResult { return text("%v", args["text"]) })
	sdk.AddTool(server, &sdk.Tool{Name: "strict"}, func(_ context.Context, _ *sdk.CallToolRequest, args struct {
		Text string `json:"text"`
	},
	) (*sdk.CallToolResult, any, error) {
		return text("%s", args.Text), nil, nil
	})
	add("env", anything, func(map[string]any) *sdk.CallToolResult { return text("%s", strings.Join(os.Environ(), "\n")) })
	add("cwd", anything, func(map[string]any) *sdk.CallToolResult {
		dir, _ := os.Getwd()
		return text("%s", dir)
	})
	server.AddTool(&sdk.Tool{Name: "roots", InputSchema: anything}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		listed, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // servers of today use it
		if err != nil {
			return nil, err
		}
		var uris []string
		for _, root := range listed.Roots {
			uris = append(uris, root.URI)
		}
		return text("%s", strings.Join(uris, "\n")), nil
	})
	add("given", anything, func(map[string]any) *sdk.CallToolResult { return text("%s", strings.Join(os.Args[1:], "\n")) })
	add("count", anything, func(map[string]any) *sdk.CallToolResult { return text("%d", counted()) })
	add("crash", anything, func(map[string]any) *sdk.CallToolResult {
		counted()
		fmt.Fprintln(os.Stderr, "fatal: out of cheese \x07")
		os.Exit(7)
		return nil
	})
	add("sleep", anything, func(args map[string]any) *sdk.CallToolResult {
		time.Sleep(time.Duration(args["ms"].(float64)) * time.Millisecond)
		return text("slept")
	})
	add("stop", anything, func(map[string]any) *sdk.CallToolResult {
		_ = exec.Command("kill", "-STOP", fmt.Sprint(os.Getpid())).Run()
		time.Sleep(time.Second) // the signal takes a moment
		return text("woken")
	})
	add("big", anything, func(args map[string]any) *sdk.CallToolResult { // written past the SDK, which takes seconds to encode it
		fmt.Print(`{"jsonrpc":"2.0","id":1,"result":"`)
		_, _ = io.CopyN(os.Stdout, endless("xxxxxxxxxxxxxxxx"), int64(args["bytes"].(float64)))
		fmt.Println(`"}`)
		return text("BEGIN and END")
	})
	add("fail", anything, func(map[string]any) *sdk.CallToolResult {
		r := text("the disk is full")
		r.IsError = true
		return r
	})
	add("spam", anything, func(map[string]any) *sdk.CallToolResult {
		_, _ = io.Copy(os.Stdout, endless(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"))
		return nil
	})
	add("chatter", anything, func(map[string]any) *sdk.CallToolResult {
		fmt.Print(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`+"\n", 5_000))
		return text("said it all")
	})
	add("grow", anything, func(map[string]any) *sdk.CallToolResult {
		server.AddTool(&sdk.Tool{Name: "grown", InputSchema: anything}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("I am new"), nil
		})
		server.RemoveTools("fail")
		if os.Getenv(asServer) != "" { // the SDK sends it only after the result
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		return text("grown")
	})
	add("children", anything, func(map[string]any) *sdk.CallToolResult { return text("%s", offspring()) })
	add("mixed", anything, func(map[string]any) *sdk.CallToolResult { return mixed() })
	add("structured", anything, func(args map[string]any) *sdk.CallToolResult {
		r := &sdk.CallToolResult{StructuredContent: map[string]any{"city": "Oslo", "degrees": 4}}
		if said, ok := args["text"].(string); ok {
			r.Content = []sdk.Content{&sdk.TextContent{Text: said}}
		}
		return r
	})
	return server
}

// counted counts its calls across restarts, in a file of the workspace.
func counted() int {
	file, err := os.OpenFile(filepath.Join(os.Getenv("CONCLAVE_WORKSPACE"), "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return -1
	}
	defer file.Close()
	_, _ = file.WriteString("x")
	info, _ := file.Stat()
	return int(info.Size())
}

// offspring starts processes that try to outlive the server, and returns their
// numbers: a child, one in its own session, one orphaned there, and one without
// environment.
func offspring() string {
	var pids []string
	for _, line := range []string{
		"sleep 600 >/dev/null 2>&1 & echo $!",
		"setsid sleep 600 >/dev/null 2>&1 & echo $!; sleep 0.1",
		"(setsid sh -c 'sleep 600 & echo $! ; wait' 2>/dev/null & ) | head -1",
		"env -i sleep 600 >/dev/null 2>&1 & echo $!",
	} {
		out, _ := exec.Command("sh", "-c", line).Output()
		pids = append(pids, strings.Fields(string(out))...)
	}
	return strings.Join(pids, " ")
}

func picture(width, height int) []byte {
	var data bytes.Buffer
	_ = png.Encode(&data, image.NewGray(image.Rect(0, 0, width, height)))
	return data.Bytes()
}

func mixed() *sdk.CallToolResult {
	small := picture(4, 4)
	r := &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "first"},
		&sdk.ImageContent{Data: small, MIMEType: "image/png"},
		&sdk.ImageContent{Data: []byte("GIF is what I am not"), MIMEType: "image/gif"},
		&sdk.ImageContent{Data: append(picture(4, 4), make([]byte, 6<<20)...), MIMEType: "image/png"},
		&sdk.ImageContent{Data: picture(9000, 1), MIMEType: "image/png"},
		&sdk.ImageContent{Data: small[:20], MIMEType: "image/png"},
		&sdk.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"},
		&sdk.ResourceLink{URI: "file:///a.txt", Name: "a.txt", MIMEType: "text/plain"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "mem://1", Text: "embedded words"}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "mem://2", MIMEType: "application/zip", Blob: []byte("PK")}},
	}}
	for range 4 {
		r.Content = append(r.Content, &sdk.ImageContent{Data: small, MIMEType: "image/png"})
	}
	return r
}

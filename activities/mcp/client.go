package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Client is the MCP servers of one step. Run is safe for concurrent use, and must not follow Close.
type Client struct {
	homes string // the directory of the servers' HOMEs
	links []*link
}

// Open connects the servers concurrently, with dir as their working directory and their HOMEs in temp,
// by default the system's temporary directory. If one fails, all are closed; the error joins a
// *StartError for each. log may be nil.
func Open(ctx context.Context, servers []Server, dir, temp string, log *slog.Logger) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the workspace of the MCP servers: %w", err)
	}
	homes, err := os.MkdirTemp(temp, "mcp-")
	if err != nil {
		return nil, fmt.Errorf("making the home directories of MCP servers: %w", err)
	}
	c := &Client{homes: homes}
	err = c.add(servers, dir, log)
	if err == nil {
		err = c.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Client) add(servers []Server, dir string, log *slog.Logger) error {
	names := &names{owners: make(map[string]owner)}
	for i, s := range servers {
		s.CallTimeout = cmp.Or(s.CallTimeout, defaultCall)
		s.StartTimeout = cmp.Or(s.StartTimeout, defaultStart)
		home := filepath.Join(c.homes, strconv.Itoa(i))
		if err := os.MkdirAll(filepath.Join(home, tempName), 0o700); err != nil {
			return &StartError{Server: s.Name, Err: err}
		}
		c.links = append(c.links, &link{server: s, dir: dir, home: home, log: log, names: names, redactor: s.redactor()})
	}
	return nil
}

// connect makes the first connections, and names the tools in the order of the servers.
func (c *Client) connect(ctx context.Context) error {
	failed := make([]error, len(c.links))
	tools := make([][]*sdk.Tool, len(c.links))
	var all sync.WaitGroup
	for i, l := range c.links {
		all.Go(func() { tools[i], failed[i] = l.dial(ctx) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for i, l := range c.links {
		l.begin(tools[i])
	}
	return nil
}

// Tools returns the current tools of all servers.
func (c *Client) Tools() []llm.Tool {
	var tools []llm.Tool
	for _, l := range c.links {
		for _, t := range l.offered() {
			tools = append(tools, t.offered)
		}
	}
	return tools
}

// Run returns the output of a call for the model, failures of servers included, or the end of ctx.
func (c *Client) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	for _, l := range c.links {
		for _, t := range l.offered() {
			if t.offered.Name != call.Name {
				continue
			}
			arguments, err := t.arguments(call.Arguments)
			if err != nil {
				return loop.Output{Text: fmt.Sprintf("error: %s: %v", call.Name, err)}, nil
			}
			out, err := l.call(ctx, t, arguments)
			if err != nil {
				return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
			}
			return loop.Output{Text: out.text(), Images: out.images}, nil
		}
	}
	return loop.Output{Text: fmt.Sprintf("error: no MCP server has a tool %.100q now; call one that is offered", call.Name)}, nil
}

// Close ends all connections and processes of the servers, in about two seconds, and removes their
// HOMEs.
func (c *Client) Close() error {
	var all sync.WaitGroup
	for _, l := range c.links {
		all.Go(l.close)
	}
	all.Wait()
	if err := os.RemoveAll(c.homes); err != nil {
		return fmt.Errorf("removing the home directories of MCP servers: %w", err)
	}
	return nil
}

package mcp

import (
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

// Client is the MCP servers of one step. Calls of Run may come at the same
// time; Close comes after them.
type Client struct {
	dir   string
	homes string // the directory of the servers' HOMEs
	links []*link
}

// Open connects the servers, all at the same time, with dir as their working
// directory. If one cannot be connected none is left; the error has a
// *StartError for each that failed. log may be nil.
func Open(ctx context.Context, servers []Server, dir string, log *slog.Logger) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the workspace of the MCP servers: %w", err)
	}
	homes, err := os.MkdirTemp("", "conclave-mcp-")
	if err != nil {
		return nil, fmt.Errorf("making the home directories of MCP servers: %w", err)
	}
	c := &Client{dir: dir, homes: homes}
	err = c.add(servers, log)
	if err == nil {
		err = c.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// add checks the servers and makes their links.
func (c *Client) add(servers []Server, log *slog.Logger) error {
	names := &names{owners: make(map[string]owner)}
	seen := make(map[string]bool)
	var wrong []error
	for i, given := range servers {
		s, err := given.complete()
		if err == nil && seen[s.Name] {
			err = errors.New("there are two of this name; rename one")
		}
		home := filepath.Join(c.homes, strconv.Itoa(i))
		if err == nil {
			err = os.Mkdir(home, 0o700)
		}
		if err != nil {
			wrong = append(wrong, &StartError{Server: s.Name, Err: err})
			continue
		}
		seen[s.Name] = true
		c.links = append(c.links, &link{server: s, dir: c.dir, home: home, log: log, names: names})
	}
	return errors.Join(wrong...)
}

// connect makes the first connections. Tools are named in the servers' order,
// whoever is ready first.
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

// Tools describes the tools of all servers, as they are now.
func (c *Client) Tools() []llm.Tool {
	var tools []llm.Tool
	for _, l := range c.links {
		for _, t := range l.offered() {
			tools = append(tools, t.told)
		}
	}
	return tools
}

// Run carries out a call and returns what the model is told, failures of
// servers included. An error is the end of ctx.
func (c *Client) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	for _, l := range c.links {
		for _, t := range l.offered() {
			if t.told.Name != call.Name {
				continue
			}
			arguments, err := t.arguments(call.Arguments)
			if err != nil {
				return loop.Output{Text: fmt.Sprintf("error: %s: %v", call.Name, err)}, nil
			}
			told, err := l.call(ctx, t, arguments)
			if err != nil {
				return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
			}
			return loop.Output{Text: bounded(c.dir, call.Name, told.text()), Images: told.images}, nil
		}
	}
	return loop.Output{Text: fmt.Sprintf("error: no MCP server has a tool %.100q now; call one that is offered", call.Name)}, nil
}

// Close ends all connections, the servers' processes with everything that they
// started, and removes their HOMEs. It takes about two seconds for servers that
// do not end by themselves.
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

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

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Client holds the MCP servers of one step. Run is safe for concurrent use, but must not be called
// after Close.
type Client struct {
	homes  string // the directory of the HOMEs of the step's own servers
	offers []*offer
}

// Place is the location of a step's servers and the run that shares them.
type Place struct {
	Dir  string // the workspace of the step, which its own servers are told
	Temp string // the parent of their HOMEs; the system's temporary directory if empty

	// Pool holds the servers that the steps of Run share. If Pool is nil or Run is empty, no server
	// is shared.
	Pool *Pool
	Run  string

	Log *slog.Logger // nil discards
}

// Open connects the servers concurrently. If any fails, it closes the step's own servers and
// returns the joined *StartErrors.
func Open(ctx context.Context, servers []Server, p Place) (*Client, error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the workspace of the MCP servers: %w", err)
	}
	p.Dir = dir
	homes, err := os.MkdirTemp(p.Temp, "mcp-")
	if err != nil {
		return nil, fmt.Errorf("making the home directories of MCP servers: %w", err)
	}
	c := &Client{homes: homes}
	err = c.add(servers, p)
	if err == nil {
		err = c.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Client) add(servers []Server, p Place) error {
	names := &names{owners: make(map[string]owner)}
	for i, s := range servers {
		o := &offer{allowed: s.Allowed, excluded: s.Excluded, names: names}
		var err error
		if s.Shared && p.Pool != nil && p.Run != "" {
			o.link, o.release, err = p.Pool.join(p.Run, s, p)
		} else {
			o.link, err = newLink(s, p.Dir, filepath.Join(c.homes, strconv.Itoa(i)), p.Log)
		}
		if err != nil {
			return err
		}
		if o.release == nil {
			o.release = o.link.close
		}
		c.offers = append(c.offers, o)
	}
	return nil
}

// connect makes the first connections, then names the tools in the order of the servers.
func (c *Client) connect(ctx context.Context) error {
	failed := make([]error, len(c.offers))
	var all sync.WaitGroup
	for i, o := range c.offers {
		all.Go(func() { o.used, failed[i] = o.link.open(ctx) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	c.Tools()
	return nil
}

// Tools returns the current tools of all servers.
func (c *Client) Tools() []llm.Tool {
	var tools []llm.Tool
	for _, o := range c.offers {
		for _, t := range o.offered() {
			tools = append(tools, t.offered)
		}
	}
	return tools
}

// Run returns the output of a call for the model. A server's failure is an output; the only error
// is the end of ctx.
func (c *Client) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	for _, o := range c.offers {
		for _, t := range o.offered() {
			if t.offered.Name != call.Name {
				continue
			}
			arguments, err := t.arguments(call.Arguments)
			if err != nil {
				return loop.Output{Text: fmt.Sprintf("error: %s: %v", call.Name, err), Failed: true}, nil
			}
			out, err := o.call(ctx, t, arguments)
			if err != nil {
				return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
			}
			return loop.Output{Text: out.text(), Images: out.images, Failed: out.failed}, nil
		}
	}
	return loop.Output{Text: fmt.Sprintf("error: no MCP server has a tool %.100q now; call one that is offered", call.Name), Failed: true}, nil
}

// Close ends the connections and processes of the step's own servers, which takes up to about two
// seconds, removes their HOMEs, and releases the shared servers.
func (c *Client) Close() error {
	var all sync.WaitGroup
	for _, o := range c.offers {
		all.Go(o.release)
	}
	all.Wait()
	if err := os.RemoveAll(c.homes); err != nil {
		return fmt.Errorf("removing the home directories of MCP servers: %w", err)
	}
	return nil
}

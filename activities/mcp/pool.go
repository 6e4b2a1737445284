package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// defaultIdle is how long an unused shared server waits for the next step of its run. The steps of
// other agents in between may take that long.
const defaultIdle = 30 * time.Minute

// Pool holds the servers that the steps of a run share. A server starts with the first step that
// uses it, and ends with its run or after it was unused for Idle. The zero value is ready for use.
type Pool struct {
	Idle time.Duration // 0 means 30 minutes

	mu      sync.Mutex
	servers map[poolKey]*pooledServer
}

// poolKey identifies a server by its run and its definition.
type poolKey struct {
	run        string
	definition [sha256.Size]byte
}

// pooledServer is a shared server. The Pool's mutex guards its fields.
type pooledServer struct {
	link  *link
	home  string
	users int         // number of running steps
	over  bool        // the run has ended
	idle  *time.Timer // nil while there are users
}

// close ends the server, which takes up to about two seconds, and removes its HOME.
func (s *pooledServer) close() {
	s.link.close()
	_ = os.RemoveAll(s.home) // the rest is removed with the worker's directory for HOMEs
}

// joinServer returns the server for a step, and a function that the step calls when it no longer needs
// the server.
func (p *Pool) joinServer(run string, s Server, place Place) (*link, func(), error) {
	definition := s
	definition.Allowed, definition.Excluded = nil, nil
	described, _ := json.Marshal(definition) // a definition always has a JSON form
	key := poolKey{run, sha256.Sum256(described)}
	p.mu.Lock()
	defer p.mu.Unlock()
	joined := p.servers[key]
	if joined == nil {
		var err error
		if joined, err = newPooledServer(s, place); err != nil {
			return nil, nil, err
		}
		if p.servers == nil {
			p.servers = make(map[poolKey]*pooledServer)
		}
		p.servers[key] = joined
	}
	joined.users++
	joined.over = false
	if joined.idle != nil {
		joined.idle.Stop()
		joined.idle = nil
	}
	return joined.link, sync.OnceFunc(func() { p.releaseServer(key, joined) }), nil
}

func newPooledServer(s Server, p Place) (*pooledServer, error) {
	home, err := os.MkdirTemp(p.Temp, "mcp-")
	if err != nil {
		return nil, fmt.Errorf("make the home directory of the MCP server %s: %w", s.Name, err)
	}
	l, err := newLink(s, filepath.Join(home, "files"), home, p.Log)
	if err != nil {
		return nil, err
	}
	return &pooledServer{link: l, home: home}, nil
}

func (p *Pool) releaseServer(key poolKey, s *pooledServer) {
	p.mu.Lock()
	s.users--
	unused := s.users == 0 && p.servers[key] == s
	if unused && !s.over {
		idle := p.Idle
		if idle == 0 {
			idle = defaultIdle
		}
		s.idle = time.AfterFunc(idle, func() { p.endUnused(key, s) })
	}
	p.mu.Unlock()
	if unused && s.over {
		p.endUnused(key, s)
	}
}

func (p *Pool) endUnused(key poolKey, s *pooledServer) {
	p.mu.Lock()
	expired := s.users == 0 && p.servers[key] == s
	if expired {
		delete(p.servers, key)
	}
	p.mu.Unlock()
	if expired {
		s.close()
	}
}

// End ends the servers of a run. A server in use ends when its last step releases it.
func (p *Pool) End(run string) {
	p.mu.Lock()
	var ended sync.WaitGroup
	for key, s := range p.servers {
		if key.run == run {
			s.over = true
			ended.Go(func() { p.endUnused(key, s) })
		}
	}
	p.mu.Unlock()
	ended.Wait()
}

// Dirs returns the directories for files of the connected servers of a run.
func (p *Pool) Dirs(run string) []string {
	p.mu.Lock()
	var servers []*pooledServer
	for key, s := range p.servers {
		if key.run == run {
			servers = append(servers, s)
		}
	}
	p.mu.Unlock()
	var dirs []string
	for _, s := range servers {
		if s.link.isConnected() {
			dirs = append(dirs, s.link.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// Close ends all servers.
func (p *Pool) Close() {
	p.mu.Lock()
	servers := p.servers
	p.servers = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.close)
	}
	all.Wait()
}

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
		return nil, fmt.Errorf("find the workspace of the MCP servers: %w", err)
	}
	p.Dir = dir
	homes, err := os.MkdirTemp(p.Temp, "mcp-")
	if err != nil {
		return nil, fmt.Errorf("make the home directories of MCP servers: %w", err)
	}
	c := &Client{homes: homes}
	err = c.addServers(servers, p)
	if err == nil {
		err = c.connectServers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Client) addServers(servers []Server, p Place) error {
	names := &names{owners: make(map[string]owner)}
	for i, s := range servers {
		o := &offer{allowed: s.Allowed, excluded: s.Excluded, names: names}
		var err error
		if s.Shared && p.Pool != nil && p.Run != "" {
			o.link, o.release, err = p.Pool.joinServer(p.Run, s, p)
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

// connectServers makes the first connections, then names the tools in the order of the servers.
func (c *Client) connectServers(ctx context.Context) error {
	failed := make([]error, len(c.offers))
	var all sync.WaitGroup
	for i, o := range c.offers {
		all.Go(func() { o.used, failed[i] = o.link.openForStep(ctx) })
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
		for _, t := range o.offeredTools() {
			tools = append(tools, t.offered)
		}
	}
	return tools
}

// Run returns the output of a call for the model. A server's failure is an output; the only error
// is the end of ctx.
func (c *Client) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	for _, o := range c.offers {
		for _, t := range o.offeredTools() {
			if t.offered.Name != call.Name {
				continue
			}
			arguments, err := t.sendableArguments(call.Arguments)
			if err != nil {
				return loop.Output{Text: fmt.Sprintf("error: %s: %v", call.Name, err), Failed: true}, nil
			}
			out, err := o.callTool(ctx, t, arguments)
			if err != nil {
				return loop.Output{}, fmt.Errorf("%s: %w", call.Name, err)
			}
			return loop.Output{Text: strings.Join(out.parts, "\n"), Images: out.images, Failed: out.failed}, nil
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
		return fmt.Errorf("remove the home directories of MCP servers: %w", err)
	}
	return nil
}

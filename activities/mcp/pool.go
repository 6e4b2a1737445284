package mcp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
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

// join returns the server for a step, and a function that the step calls when it no longer needs
// the server.
func (p *Pool) join(run string, s Server, place Place) (*link, func(), error) {
	definition := s
	definition.Allowed, definition.Excluded = nil, nil
	described, err := json.Marshal(definition)
	if err != nil {
		return nil, nil, fmt.Errorf("describing the MCP server %s: %w", s.Name, err)
	}
	key := poolKey{run, sha256.Sum256(described)}
	p.mu.Lock()
	defer p.mu.Unlock()
	joined := p.servers[key]
	if joined == nil {
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
	return joined.link, sync.OnceFunc(func() { p.release(key, joined) }), nil
}

func newPooledServer(s Server, p Place) (*pooledServer, error) {
	home, err := os.MkdirTemp(p.Temp, "mcp-")
	if err != nil {
		return nil, fmt.Errorf("making the home directory of the MCP server %s: %w", s.Name, err)
	}
	l, err := newLink(s, filepath.Join(home, "files"), home, p.Log)
	if err != nil {
		return nil, err
	}
	return &pooledServer{link: l, home: home}, nil
}

// release ends a step's use of a server.
func (p *Pool) release(key poolKey, s *pooledServer) {
	p.mu.Lock()
	s.users--
	unused := s.users == 0 && p.servers[key] == s
	if unused && !s.over {
		idle := p.Idle
		if idle == 0 {
			idle = defaultIdle
		}
		s.idle = time.AfterFunc(idle, func() { p.expire(key, s) })
	}
	p.mu.Unlock()
	if unused && s.over {
		p.expire(key, s)
	}
}

// expire ends a server if no step uses it.
func (p *Pool) expire(key poolKey, s *pooledServer) {
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
			ended.Go(func() { p.expire(key, s) })
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
		if s.link.connected() {
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

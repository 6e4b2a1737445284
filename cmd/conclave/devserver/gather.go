package devserver

import "sync"

// gathering syncs directories. Calls that wait for the same directory share one sync.
type gathering struct {
	flush func(dir string) error

	mu   sync.Mutex
	dirs map[string]*flushes // directories with a running sync
}

// flushes are the current and the next sync of a directory.
type flushes struct {
	next *flush // begins when the running one has ended; nil if nobody waits
}

// flush is one sync of a directory.
type flush struct {
	done chan struct{}
	err  error
}

// sync makes the entries that a directory has when sync is called survive a power failure.
func (g *gathering) sync(dir string) error {
	g.mu.Lock()
	running := g.dirs[dir]
	if running == nil {
		if g.dirs == nil {
			g.dirs = map[string]*flushes{}
		}
		g.dirs[dir] = &flushes{}
		g.mu.Unlock()
		defer g.ended(dir)
		return g.flush(dir)
	}
	if running.next == nil { // the running one may have begun before the call
		running.next = &flush{done: make(chan struct{})}
	}
	next := running.next
	g.mu.Unlock()
	<-next.done
	return next.err
}

// ended starts the next sync of a directory if a caller waits for it.
func (g *gathering) ended(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.dirs[dir].next
	if next == nil {
		delete(g.dirs, dir)
		return
	}
	g.dirs[dir].next = nil
	go func() {
		next.err = g.flush(dir)
		close(next.done)
		g.ended(dir)
	}()
}

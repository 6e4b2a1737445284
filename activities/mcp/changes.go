package mcp

import (
	"context"
	"sync"
	"time"
)

// maxSettle bounds the time that a finished call waits for a changed list of tools.
const maxSettle = 10 * time.Second

// changes combines notices of a changed list of tools into as few fetches as possible.
type changes struct {
	mu      sync.Mutex
	seen    int           // number of changes announced
	fetched int           // changes covered by a finished fetch
	passed  bool          // the SDK has a notice that it has not handled
	wake    chan struct{} // holds one value when a fetch is due
	settled chan struct{} // closed and replaced when fetched grows
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1), settled: make(chan struct{})}
}

// announce records a notice and reports whether to pass it on to the SDK, which gets one at a time.
func (c *changes) announce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	first := !c.passed
	c.passed = true
	return first
}

// due requests a fetch. It is called after the SDK has dropped its cached list.
func (c *changes) due() {
	c.mu.Lock()
	if !c.passed { // over HTTP, announce is not called
		c.seen++
	}
	c.passed = false
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// follow fetches the list whenever that is due, until ctx ends.
func (c *changes) follow(ctx context.Context, fetch func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		c.mu.Lock()
		seen := c.seen
		c.mu.Unlock()
		fetch(ctx)
		c.settle(seen)
	}
}

func (c *changes) settle(seen int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched = max(c.fetched, seen)
	close(c.settled)
	c.settled = make(chan struct{})
}

// wait blocks until all changes announced so far are fetched. After maxSettle it gives up and
// counts them as fetched.
func (c *changes) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	c.mu.Lock()
	seen := c.seen
	c.mu.Unlock()
	for {
		c.mu.Lock()
		done, settled := c.fetched >= seen, c.settled
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-settled:
		case <-ctx.Done():
			c.settle(seen)
		}
	}
}

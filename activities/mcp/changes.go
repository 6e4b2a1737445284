package mcp

import (
	"context"
	"sync"
	"time"
)

// maxSettle is how long a call's end waits for the list of tools that changed
// during the call.
const maxSettle = 10 * time.Second

// changes counts what a server says of changes to its list of tools, against
// what was fetched since. However often it says so, one fetch is due.
type changes struct {
	mu      sync.Mutex
	seen    int // changes announced
	fetched int // changes that a finished fetch has taken in
	passed  bool
	wake    chan struct{} // holds one when a fetch is due
	settled chan struct{} // closed and made anew when fetched grows
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1), settled: make(chan struct{})}
}

// announce notes a change where it is read off the wire, and says whether the
// SDK has to be told: not while an earlier notification waits for it.
func (c *changes) announce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	first := !c.passed
	c.passed = true
	return first
}

// due asks for a fetch: the SDK has forgotten the old list.
func (c *changes) due() {
	c.mu.Lock()
	if !c.passed { // it was not read by us
		c.seen++
	}
	c.passed = false
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// follow fetches whenever a fetch is due, until ctx ends.
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

// wait returns when all that was announced by now is fetched, or it takes too long.
func (c *changes) wait(ctx context.Context) {
	limit := time.NewTimer(maxSettle)
	defer limit.Stop()
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
			return
		case <-limit.C:
			c.settle(seen)
			return
		}
	}
}

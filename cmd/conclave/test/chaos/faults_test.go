//go:build e2e

package chaos

import (
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is one kind of fault. A call that is in flight while it lasts may be paid for again.
type fault struct {
	name string
	hits func(c *cluster) []string // the workers whose replies it can cost
	run  func(c *cluster)
}

// faults come in this order, again and again.
var faults = []fault{
	{"a worker killed with -9", hitsWorker(0), func(c *cluster) { c.restart(0) }},
	{"half of all S3 requests answered 503, for 10 s", hitsAll, func(c *cluster) { c.storageFails("busy") }},
	{"PostgreSQL killed with -9, started again after 3 s", hitsAll, func(c *cluster) {
		c.postgres.Kill()
		c.pass(3 * time.Second)
		c.postgres.Start()
	}},
	{"a worker's network cut for 25 s", hitsWorker(1), (*cluster).isolate},
	{"half of all S3 requests without an answer, for 10 s", hitsAll, func(c *cluster) { c.storageFails("silence") }},
	{"Temporal killed with -9, started again after 5 s", hitsAll, func(c *cluster) {
		c.temporal.Kill()
		c.pass(5 * time.Second)
		c.temporal.Start()
	}},
	{"the worker with a clock ahead killed with -9", hitsWorker(2), func(c *cluster) { c.restart(2) }},
	{"one of two S3 servers killed with -9 for 5 s: no writes", hitsAll, func(c *cluster) {
		c.minio.Nodes[0].Kill()
		c.pass(5 * time.Second)
		c.minio.Nodes[0].Start()
	}},
	{"all three workers killed with -9", hitsAll, func(c *cluster) { c.restart(0, 1, 2) }},
	{"Temporal stopped by SIGTERM and started again", hitsAll, func(c *cluster) {
		c.temporal.Signal(syscall.SIGTERM)
		c.temporal.Start()
	}},
}

func hitsAll(c *cluster) []string { return c.names() }

func hitsWorker(n int) func(*cluster) []string {
	return func(c *cluster) []string { return c.names(c.workers[n]) }
}

// restart kills workers, and starts them again two seconds later.
func (c *cluster) restart(workers ...int) {
	for _, n := range workers {
		c.workers[n].kill()
	}
	c.pass(2 * time.Second)
	for _, n := range workers {
		c.workers[n].start()
	}
}

func (c *cluster) storageFails(fault string) {
	c.storage.Store(&fault)
	c.pass(10 * time.Second)
	none := ""
	c.storage.Store(&none)
}

// isolate cuts the network of one worker for longer than the heartbeat timeout.
func (c *cluster) isolate() {
	if c.island == nil {
		return
	}
	require.NoError(c.t, c.island.cut())
	c.pass(25 * time.Second)
	require.NoError(c.t, c.island.join())
}

// pass lets time pass; faults last by the clock.
func (c *cluster) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.t.Context().Done():
	}
}

package mcp_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
)

// steps opens the tools of steps that may share servers.
type steps struct {
	t      *testing.T
	pool   *mcp.Pool
	server mcp.Server
}

func newSteps(t *testing.T) steps {
	t.Helper()
	s := steps{t, &mcp.Pool{}, fake(t, "fake", "ordinary")}
	s.server.Shared = true
	t.Cleanup(s.pool.Close)
	return s
}

func (s steps) open(run string) *mcp.Client {
	s.t.Helper()
	c, err := mcp.Open(s.t.Context(), []mcp.Server{s.server}, mcp.Place{Dir: s.t.TempDir(), Pool: s.pool, Run: run})
	require.NoError(s.t, err)
	return c
}

func (s steps) pid(c *mcp.Client) int {
	s.t.Helper()
	return serverOf(s.t, run(s.t, c, "mcp__fake__env", "{}").Text).Pid
}

func TestPool_keepsAServerBetweenTheStepsOfARun(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	first := s.open("one")
	pid := s.pid(first)
	require.Equal(t, "1", run(t, first, "mcp__fake__count", "{}").Text)

	s.server.Excluded = []string{"crash"} // the filters are those of each step
	beside := s.open("one")
	require.NotContains(t, offered(beside), "mcp__fake__crash")
	require.Contains(t, offered(first), "mcp__fake__crash")
	require.Equal(t, "2", run(t, beside, "mcp__fake__count", "{}").Text)
	require.NoError(t, first.Close())
	require.NoError(t, beside.Close())

	state := beside.Tools()[0].State
	require.NotEmpty(t, state)
	later := s.open("one")
	require.Equal(t, pid, s.pid(later))
	require.Equal(t, state, later.Tools()[0].State)
	require.Equal(t, "3", run(t, later, "mcp__fake__count", "{}").Text)
	dir, home := run(t, later, "mcp__fake__cwd", "{}").Text, filepath.Dir(s.pool.Dirs("one")[0])

	other := s.open("two")
	require.NotEqual(t, pid, s.pid(other))
	require.NotEqual(t, state, other.Tools()[0].State)
	require.Equal(t, "1", run(t, other, "mcp__fake__count", "{}").Text)
	require.NoError(t, other.Close())

	s.pool.End("one")
	require.Equal(t, pid, s.pid(later), "the server ends with the last step")
	require.NoError(t, later.Close())
	gone(t, pid)
	require.NoDirExists(t, dir)
	require.NoDirExists(t, home)
	require.DirExists(t, filepath.Dir(home))
}

func TestPool_endsAnUnusedServer(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.pool.Idle = time.Millisecond
	c := s.open("one")
	pid := s.pid(c)
	require.NoError(t, c.Close())
	gone(t, pid)

	s.pool.Idle = 0
	c = s.open("one")
	again := s.pid(c)
	require.NotEqual(t, pid, again)
	require.NoError(t, c.Close())
	s.pool.Close()
	gone(t, again)
}

// Servers whose definitions differ, for example in a variable, are not shared.
func TestPool_needsTheSameDefinition(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	first := s.open("one")
	s.server.Env["ACCOUNT"] = "other"
	second := s.open("one")
	require.NotEqual(t, s.pid(first), s.pid(second))
	s.server.Shared = false
	third := s.open("one")
	s.server.Shared = true
	without := s.open("")
	require.NotEqual(t, s.pid(second), s.pid(third))
	require.NotEqual(t, s.pid(second), s.pid(without), "no run, no sharing")
	for _, c := range []*mcp.Client{third, without} {
		pid := s.pid(c)
		require.NoError(t, c.Close())
		gone(t, pid)
	}
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

// A step that was not calling the server is also told of the reconnection.
func TestPool_tellsEveryStepOfAReconnection(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	first, second := s.open("one"), s.open("one")
	require.Contains(t, run(t, first, "mcp__fake__crash", "{}").Text, "The server was reconnected")
	require.Equal(t, "2", run(t, first, "mcp__fake__count", "{}").Text)
	require.Equal(t, "3\n[MCP server \"fake\" was reconnected before this call: state from earlier calls, such as an open page, may be lost]",
		run(t, second, "mcp__fake__count", "{}").Text)
	require.Equal(t, "4", run(t, second, "mcp__fake__count", "{}").Text)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

func TestPool_concurrentSteps(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, err := mcp.Open(t.Context(), []mcp.Server{s.server}, mcp.Place{Dir: t.TempDir(), Pool: s.pool, Run: "one"})
			if err == nil {
				c.Tools()
				err = c.Close()
			}
			require.NoError(t, err)
		})
		s.pool.End("one")
	}
	all.Wait()
}

package mcp_test

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
)

// A worker opens servers for every step. Not parallel: it counts all goroutines.
func TestClose_leavesNoGoroutine(t *testing.T) {
	web := httptest.NewServer(streamable("ordinary", nil))
	defer web.Close()
	stacks := func() string {
		buffer := make([]byte, 1<<20)
		return string(buffer[:runtime.Stack(buffer, true)])
	}
	ours := func() int {
		return strings.Count(stacks(), "activities/mcp.") + strings.Count(stacks(), "jsonrpc2.")
	}
	before := ours()
	for range 3 {
		slow := fake(t, "fake", "ordinary")
		slow.CallTimeout = 200 * time.Millisecond
		c, err := mcp.Open(t.Context(), []mcp.Server{slow, {Name: "web", URL: web.URL, CallTimeout: 200 * time.Millisecond}}, mcp.Place{Dir: t.TempDir()})
		require.NoError(t, err)
		run(t, c, "mcp__web__echo", `{"text": "a"}`)
		run(t, c, "mcp__web__sleep", `{"ms": 400}`)
		run(t, c, "mcp__fake__sleep", `{"ms": 400}`)
		run(t, c, "mcp__fake__crash", "{}")
		require.NoError(t, c.Close())
		_, err = mcp.Open(t.Context(), []mcp.Server{fake(t, "bad", "exits"), {Name: "web", URL: web.URL}}, mcp.Place{Dir: t.TempDir()})
		require.Error(t, err)
	}
	web.Close()
	require.Eventually(t, func() bool { return ours() <= before }, time.Minute, 50*time.Millisecond, "%s", stacks)
}

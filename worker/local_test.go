package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
)

func TestLocal_givesAStepAWorkersPortsAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("SOME_API_KEY", "a-secret-that-is-long")
	l, err := OpenLocal(Models{}, NewTools(DefaultSettings()))
	require.NoError(t, err)
	require.DirExists(t, l.scratch.Path)
	agent := config.Agent{ID: "agent_a", Backend: config.Backend{Type: config.Offline}}
	agent.Tools.Files = true
	p, err := l.Ports(agent)
	require.NoError(t, err)
	require.Equal(t, "it is [redacted]", string(p.Redact([]byte("it is a-secret-that-is-long"))))
	require.True(t, p.Tools.Repeatable("write_file"))
	opened, err := p.Tools.OpenTools(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, opened.Tools())
	require.NoError(t, opened.Close())
	_, err = l.Ports(config.Agent{ID: "agent_a", Backend: config.Backend{Type: "openai", Model: "m", Provider: "nobody"}})
	require.True(t, activities.Lacks(err, activities.NoProvider))
	l.Close()
	require.NoDirExists(t, l.scratch.Path)
}

// HOMEs of MCP servers, and the directories of probes, outlive a killed process until the next
// worker starts, wherever that worker keeps its workspaces.
func TestTools_whatAKilledProcessLeftIsSwept(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	self, err := os.Executable()
	require.NoError(t, err)
	agent := named(config.MCPServer{Name: "own", Command: self, Args: []string{serve}})
	opened := func(tools *Tools) string {
		o, err := tools.Open(t.Context(), agent, t.TempDir(), activities.Sharing{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = o.Close() })
		homes, err := filepath.Glob(filepath.Join(tools.temp.Path, "mcp-*", "0"))
		require.NoError(t, err)
		require.Len(t, homes, 1)
		return homes[0]
	}
	killed, living := NewTools(DefaultSettings()), NewTools(DefaultSettings())
	left, used := opened(killed), opened(living)
	// As after a kill: the kernel has released the lock.
	require.NoError(t, os.Rename(killed.temp.Path, killed.temp.Path+"0"))
	left = strings.Replace(left, killed.temp.Path, killed.temp.Path+"0", 1)
	probed := filepath.Join(temp, "sandbox-probe-1")
	require.NoError(t, os.MkdirAll(filepath.Join(probed, "workspace"), 0o700))
	require.DirExists(t, left)

	next, err := OpenLocal(Models{}, NewTools(DefaultSettings()))
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.NoDirExists(t, probed)
	require.DirExists(t, used, "its process lives")
	next.Close()
	killed.closeShared()
	living.closeShared()
	living.closeShared()
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

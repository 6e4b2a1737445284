package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker/settings"
)

func TestLocal_givesAStepAWorkersPortsAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("SOME_API_KEY", "a-secret-that-is-long")
	l, err := OpenLocal(Models{}, NewTools(settings.Default()))
	require.NoError(t, err)
	require.DirExists(t, l.scratch.dir)
	agent := config.Agent{ID: "agent_a", Backend: config.Backend{Type: config.Offline}}
	agent.Tools.Files = true
	p, err := l.Ports(agent)
	require.NoError(t, err)
	require.Equal(t, "it is [redacted]", string(p.Redact([]byte("it is a-secret-that-is-long"))))
	require.True(t, p.Repeatable("write_file"))
	opened, err := p.Tools(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, opened.Tools())
	require.NoError(t, opened.Close())
	_, err = l.Ports(config.Agent{ID: "agent_a", Backend: config.Backend{Type: "openai", Model: "m", Provider: "nobody"}})
	require.True(t, activities.Lacks(err, activities.NoProvider))
	l.Close()
	require.NoDirExists(t, l.scratch.dir)
}

func TestScratch_ofADeadProcessIsRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	living, err := openScratch(parent)
	require.NoError(t, err)
	dead, err := openScratch(parent)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dead.dir, "left.txt"), nil, 0o600))
	require.NoError(t, dead.lock.Close()) // as the kernel does for a killed process

	next, err := openScratch(parent)
	require.NoError(t, err)
	require.NoDirExists(t, dead.dir)
	require.NoFileExists(t, dead.lock.Name())
	require.DirExists(t, living.dir)
	require.NotEqual(t, living.dir, next.dir)

	living.close()
	next.close()
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}

// HOMEs of MCP servers outlive a killed process until the next worker starts, wherever that worker
// keeps its workspaces.
func TestTools_homesAreSwept(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	self, err := os.Executable()
	require.NoError(t, err)
	agent := named(config.MCPServer{Name: "own", Command: self, Args: []string{serve}})
	opened := func(tools *Tools) string {
		o, err := tools.Open(t.Context(), agent, t.TempDir(), activities.Sharing{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = o.Close() })
		homes, err := filepath.Glob(filepath.Join(tools.temp.dir, "mcp-*", "0"))
		require.NoError(t, err)
		require.Len(t, homes, 1)
		return homes[0]
	}
	killed, living := NewTools(settings.Default()), NewTools(settings.Default())
	left, used := opened(killed), opened(living)
	require.NoError(t, killed.temp.lock.Close()) // as the kernel does for a killed process

	next, err := OpenLocal(Models{}, NewTools(settings.Default()))
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.DirExists(t, used, "its process lives")
	next.Close()
	living.release()
	living.release()
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
)

func itoa(n int) string { return strconv.Itoa(n) }

// serverOf returns the process of a server by the mark in its environment.
func serverOf(t *testing.T, environment string) *os.Process {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("finding a process by its environment needs /proc")
	}
	_, mark, _ := strings.Cut(environment, "CONCLAVE_MCP_MARK=")
	mark, _, _ = strings.Cut(mark, "\n")
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range found {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "CONCLAVE_MCP_MARK="+mark) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			process, err := os.FindProcess(pid)
			require.NoError(t, err)
			return process
		}
	}
	t.Fatal("the server has no process")
	return nil
}

// gone waits until a process has ended and is reaped.
func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat("/proc/" + itoa(pid))
		return os.IsNotExist(err)
	}, time.Minute, 5*time.Millisecond, "process %d", pid)
}

func TestClose_leavesNoProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists the processes that a server started")
	}
	for _, end := range []string{"close", "crash", "stop"} {
		s := fake(t, "fake", "ordinary")
		s.CallTimeout = 5 * time.Second
		c, err := mcp.Open(t.Context(), []mcp.Server{s}, mcp.Place{Dir: t.TempDir()})
		require.NoError(t, err)
		pids := strings.Fields(run(t, c, "mcp__fake__children", "{}").Text)
		require.Len(t, pids, 4)
		for _, pid := range pids {
			require.DirExists(t, "/proc/"+pid)
		}
		if end != "close" {
			run(t, c, "mcp__fake__"+end, "{}")
		}
		require.NoError(t, c.Close())
		for _, pid := range pids {
			n, err := strconv.Atoi(pid)
			require.NoError(t, err)
			gone(t, n)
		}
	}
}

// markOf returns the mark of the server that runs a script.
func markOf(t *testing.T, script string) string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range found {
		line, _ := os.ReadFile(path)
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if strings.Contains(string(line), script) {
			_, mark, _ := strings.Cut(string(environment), "CONCLAVE_MCP_MARK=")
			mark, _, _ = strings.Cut(mark, "\x00")
			return mark
		}
	}
	t.Skip("the server cannot be found without /proc")
	return ""
}

// marked lists the processes that carry a mark.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	var lines []string
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range found {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "CONCLAVE_MCP_MARK="+mark) {
			lines = append(lines, path)
		}
	}
	return lines
}

func TestServer_diesWithAKilledWorker(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with its parent")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	worker := exec.CommandContext(t.Context(), self)
	worker.Env = append(os.Environ(), asServer+"=worker", "TMPDIR="+t.TempDir())
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	environment := make([]byte, 64<<10)
	n, err := out.Read(environment)
	require.NoError(t, err)
	server := serverOf(t, string(environment[:n]))
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	gone(t, server.Pid)
}

package server

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"conclave/cmd/conclave/local"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The cases share one stack.
func TestStack_serving(t *testing.T) {
	t.Parallel()
	// SQLite would misread the name without escapes.
	dir := filepath.Join(t.TempDir(), "50% of what? #1")
	lease := join(t, dir, local.Options{})
	stack := lease.Stack
	t.Run("namespace", func(t *testing.T) { keepsHistoriesForAMonth(t, stack) })
	t.Run("cancel", func(t *testing.T) { cancelsWithoutHeartbeat(t, stack) })
	t.Run("database", func(t *testing.T) { writesAhead(t, stack) })
	t.Run("ui", func(t *testing.T) { answersToItsOwnNameOnly(t, stack) })
	t.Run("files", func(t *testing.T) { keepsFilesPrivate(t, stack) })
	t.Run("loopback", func(t *testing.T) { listensOnLoopbackOnly(t, stack) })
	t.Run("store", func(t *testing.T) { guardsTheStore(t, stack) })
}

func keepsHistoriesForAMonth(t *testing.T, stack local.Stack) {
	described, err := temporalClient(t, stack).WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: stack.Namespace})
	require.NoError(t, err)
	require.Equal(t, 30*24*time.Hour, described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	info, err := temporalClient(t, stack).WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, info.GetServerVersion(), stack.ServerVersion)
}

// cancelsWithoutHeartbeat needs the worker commands: without them only a heartbeat
// tells an activity of its cancellation.
func cancelsWithoutHeartbeat(t *testing.T, stack local.Stack) {
	c := temporalClient(t, stack)
	w := worker.New(c, "cancel", worker.Options{})
	running := make(chan struct{})
	w.RegisterActivityWithOptions(func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}, activity.RegisterOptions{Name: "wait"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Hour, WaitForCancellation: true,
		})
		return workflow.ExecuteActivity(ctx, "wait").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "waiting"})
	require.NoError(t, w.Start())
	defer w.Stop()

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "cancel"}, "waiting")
	require.NoError(t, err)
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	begin := time.Now()
	require.NoError(t, c.CancelWorkflow(ctx, run.GetID(), ""))
	require.ErrorContains(t, run.Get(ctx, nil), "canceled")
	t.Logf("cancelled after %s", time.Since(begin))
}

func writesAhead(t *testing.T, stack local.Stack) {
	content, err := os.ReadFile(filepath.Join(stack.DataDir, "temporal-"+stack.ServerVersion+".db"))
	require.NoError(t, err)
	require.Equal(t, []byte{2, 2}, content[18:20])
}

func answersToItsOwnNameOnly(t *testing.T, stack local.Stack) {
	page, err := io.ReadAll(get(t, stack.UIAddress+"/namespaces/default/workflows", "").Body)
	require.NoError(t, err)
	require.Contains(t, string(page), "<!doctype html>")
	namespaces, err := io.ReadAll(get(t, stack.UIAddress+"/api/v1/namespaces", "").Body)
	require.NoError(t, err)
	require.Contains(t, string(namespaces), `"default"`)

	for host, want := range map[string]int{
		"localhost":               http.StatusOK,
		"localhost:8233":          http.StatusOK,
		"127.0.0.1":               http.StatusOK,
		"evil.example":            http.StatusForbidden,
		"evil.example:8233":       http.StatusForbidden,
		"127.0.0.1.evil.example":  http.StatusForbidden,
		"localhost.evil.example.": http.StatusForbidden,
	} {
		for _, path := range []string{"/", "/api/v1/namespaces", "/healthz"} {
			require.Equal(t, want, get(t, stack.UIAddress+path, host).StatusCode, "%s as %s", path, host)
		}
	}
}

func keepsFilesPrivate(t *testing.T, stack local.Stack) {
	require.NoError(t, filepath.WalkDir(stack.DataDir, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		return nil
	}))
	require.GreaterOrEqual(t, len(stack.S3SecretKey), 32)
}

func listensOnLoopbackOnly(t *testing.T, stack local.Stack) {
	listeners := listening(t, stack.PID)
	for _, l := range listeners {
		require.True(t, l.Addr().IsLoopback(), "listens on %s", l)
	}
	require.Len(t, listeners, 6, "three servers, and Temporal's three inner services")
}

// listening reads the addresses on which a process listens from the kernel.
func listening(t *testing.T, pid int) []netip.AddrPort {
	t.Helper()
	sockets, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	require.NoError(t, err)
	if len(sockets) == 0 {
		t.Skip("this system does not list the sockets of a process")
	}
	own := map[string]bool{}
	for _, fd := range sockets {
		if target, err := os.Readlink(fd); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var found []netip.AddrPort
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			const address, state, inode, listen = 1, 3, 9, "0A"
			columns := strings.Fields(line)
			if len(columns) <= inode || columns[state] != listen || !own[columns[inode]] {
				continue
			}
			host, number, _ := strings.Cut(columns[address], ":")
			port, err := strconv.ParseUint(number, 16, 16)
			require.NoError(t, err)
			ip := netip.IPv4Unspecified()
			if host == "0100007F" {
				ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
			found = append(found, netip.AddrPortFrom(ip, uint16(port)))
		}
	}
	return found
}

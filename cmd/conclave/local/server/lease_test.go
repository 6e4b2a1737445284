package server

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/local"
	"conclave/engine/files/filelock"
)

func TestStack_livesAsLongAsItsLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, running, err := local.Find(dir)
	require.NoError(t, err)
	require.False(t, running)
	require.Empty(t, names(t, dir), "Find creates no files")

	first, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	require.True(t, first.Started)
	requireHealthy(t, first.Stack)

	second, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	require.False(t, second.Started)
	require.Equal(t, first.Stack, second.Stack)
	found, running, err := local.Find(dir)
	require.NoError(t, err)
	require.True(t, running)
	require.Equal(t, first.Stack, found)

	require.NoError(t, first.Release())
	require.NoError(t, first.Release(), "releasing twice is harmless")
	require.Never(t, func() bool { return !isRunning(dir) }, 2*grace, 100*time.Millisecond, "one lease is left")
	requireHealthy(t, second.Stack)
	log, err := os.ReadFile(first.Stack.LogFile)
	require.NoError(t, err)
	require.NotContains(t, string(log), `"level":"error"`, "before the server cuts off its own pollers")

	require.NoError(t, second.Release())
	requireGone(t, dir)
	require.False(t, isRunning(dir))
	require.Eventually(t, func() bool {
		return syscall.Kill(first.Stack.PID, 0) == syscall.ESRCH
	}, time.Minute, 10*time.Millisecond, "the child is still there")
	require.ElementsMatch(t, []string{
		"logs", "s3", "stack.json", "stack.leases", "stack.lock", "stack.ready",
		"temporal-1.32.1.db", "temporal-1.32.1.db-shm", "temporal-1.32.1.db-wal",
	}, names(t, dir))
	log, err = os.ReadFile(first.Stack.LogFile)
	require.NoError(t, err)
	require.NotContains(t, string(log), first.Stack.S3SecretKey)
	require.NotContains(t, string(log), "DATA RACE")
}

func TestJoin_whileTheStackStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	require.NoError(t, first.Release())
	require.Eventually(t, func() bool { return !isRunning(dir) }, time.Minute, time.Millisecond)
	free, err := isFree(filepath.Join(dir, "stack.lock"))
	require.NoError(t, err)
	t.Logf("the child is still stopping: %t", !free) // unless the machine is busy

	second := join(t, dir, local.Options{})
	require.True(t, second.Started)
	require.Equal(t, first.Stack.Ports, second.Stack.Ports)
	requireHealthy(t, second.Stack)
}

func TestJoin_afterAKilledStack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	stack := first.Stack
	_, err = storeClient(stack, stack.S3SecretKey).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &stack.Bucket, Key: ptr("sessions/s1/session.json"), Body: bytes.NewReader([]byte("{}")),
	})
	require.NoError(t, err)
	_, err = temporalClient(t, stack).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "s1", TaskQueue: "conclave"}, "Session")
	require.NoError(t, err)

	require.NoError(t, syscall.Kill(stack.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !isRunning(dir) }, time.Minute, time.Millisecond)
	second := join(t, dir, local.Options{})
	require.NoError(t, first.Release(), "a lease on a stack that is no more")
	require.True(t, second.Started)
	require.NotEqual(t, stack.PID, second.Stack.PID)
	require.Equal(t, stack.Ports, second.Stack.Ports)
	require.Equal(t, stack.S3SecretKey, second.Stack.S3SecretKey)

	stack = second.Stack
	object, err := storeClient(stack, stack.S3SecretKey).GetObject(t.Context(), &s3.GetObjectInput{
		Bucket: &stack.Bucket, Key: ptr("sessions/s1/session.json"),
	})
	require.NoError(t, err)
	content, err := io.ReadAll(object.Body)
	require.NoError(t, err)
	require.Equal(t, "{}", string(content))
	described, err := temporalClient(t, stack).DescribeWorkflowExecution(t.Context(), "s1", "")
	require.NoError(t, err)
	require.Equal(t, "Session", described.GetWorkflowExecutionInfo().GetType().GetName())
}

func TestStack_survivesItsStarter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	starter := startHolder(t, dir)
	require.True(t, starter.joined(t).Started)
	other, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	require.False(t, other.Started)

	require.NoError(t, starter.process.Kill())
	require.Never(t, func() bool { return !isRunning(dir) }, 2*grace, 100*time.Millisecond)
	requireHealthy(t, other.Stack)

	require.NoError(t, other.Release())
	requireGone(t, dir)
}

func TestLease_endsWithItsProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := startHolder(t, dir)
	holder.joined(t)
	require.NoError(t, holder.process.Kill())
	requireGone(t, dir)
}

func TestJoin_oneOfManyStartsTheStack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holders := make([]*holder, 8)
	for i := range holders {
		holders[i] = startHolder(t, dir)
	}
	started := 0
	children := map[int]bool{}
	for _, h := range holders {
		j := h.joined(t)
		children[j.Stack.PID] = true
		if j.Started {
			started++
		}
	}
	require.Equal(t, 1, started)
	require.Len(t, children, 1)
	for _, h := range holders {
		h.leave()
	}
	requireGone(t, dir)
}

func TestJoin_endsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner, err := filelock.Try(filepath.Join(dir, "stack.lock"), filelock.Exclusive)
	require.NoError(t, err)
	defer func() { require.NoError(t, owner.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = local.Join(ctx, dir, local.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	free, err := isFree(filepath.Join(dir, "stack.leases"))
	require.NoError(t, err)
	require.True(t, free, "no lease may be left")
}

func isFree(path string) (bool, error) {
	lock, err := filelock.Try(path, filelock.Shared)
	if lock == nil {
		return false, err
	}
	return true, lock.Close()
}

func isRunning(dir string) bool {
	_, running, err := local.Find(dir)
	return err == nil && running
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func ptr[T any](v T) *T { return &v }

//go:build linux || darwin

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/filelock"
)

// serve is a child in this process, with the locks of one.
func serve(t *testing.T, dataDir string, stack Stack) (c *Child, reports *os.File) {
	t.Helper()
	dir, err := locateDirectory(dataDir)
	require.NoError(t, err)
	require.NoError(t, dir.createPrivate())
	owner, err := filelock.Try(dir.lockFile(), filelock.Exclusive)
	require.NoError(t, err)
	require.NotNil(t, owner)
	reports, in, err := os.Pipe()
	require.NoError(t, err)
	c = &Child{DataDir: dataDir, dir: dir, owner: owner, reports: in}
	require.NoError(t, c.Serve(t.Context(), stack))
	t.Cleanup(func() {
		_ = owner.Close()
		_ = reports.Close()
		c.Withdraw()
		if c.leases != nil {
			_ = c.leases.Close()
		}
	})
	return c, reports
}

func someStack(dataDir string) Stack {
	return Stack{TemporalAddress: "127.0.0.1:7233", Namespace: "default", S3SecretKey: "secret", Bucket: Bucket, DataDir: dataDir, Ports: Ports{Temporal: 7233}}
}

// A command finds a stack only while it serves.
func TestFind(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	_, found, err := Find(dataDir)
	require.NoError(t, err)
	require.False(t, found, "there is no directory")
	require.NoDirExists(t, dataDir, "looking makes nothing")

	stack := someStack(dataDir)
	c, reports := serve(t, dataDir, stack)
	var sent report
	require.NoError(t, json.NewDecoder(reports).Decode(&sent))
	require.Equal(t, stack, *sent.Stack, "the starter gets the same")
	got, found, err := Find(dataDir)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, stack, got)

	c.Withdraw()
	_, found, err = Find(dataDir)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, stack, c.Last(), "the next one takes its ports and keys")
	_, _, err = Find("")
	require.ErrorContains(t, err, "the name is empty; give one with --data-dir")
}

// The record has a secret key.
func TestRecord_isPrivate(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	serve(t, dataDir, someStack(dataDir))
	for name, mode := range map[string]os.FileMode{"": 0o700, "stack.json": 0o600} {
		info, err := os.Stat(filepath.Join(dataDir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

func TestFind_damagedRecord(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	c, _ := serve(t, dataDir, someStack(dataDir))
	require.NoError(t, os.WriteFile(c.dir.stackFile(), []byte("{"), 0o600))
	_, found, err := Find(dataDir)
	require.ErrorContains(t, err, "read the record of the embedded stack "+c.dir.stackFile())
	require.False(t, found)
	require.NoError(t, os.Remove(c.dir.stackFile()))
	_, _, err = Find(dataDir)
	require.ErrorContains(t, err, "read the record of the embedded stack")
	require.Zero(t, c.Last())
}

// A lease keeps the stack running; several commands can hold one.
func TestJoin_running(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	c, _ := serve(t, dataDir, someStack(dataDir))
	first, err := Join(t.Context(), dataDir, Options{})
	require.NoError(t, err)
	require.False(t, first.Started)
	require.Equal(t, someStack(dataDir), first.Stack)
	second, err := Join(t.Context(), dataDir, Options{})
	require.NoError(t, err)

	abandoned := func(keep bool) bool {
		gone, err := c.Abandoned(keep)
		require.NoError(t, err)
		return gone
	}
	require.False(t, abandoned(true))
	require.NoError(t, first.Release())
	require.NoError(t, first.Release(), "a second release does nothing")
	require.False(t, abandoned(true))
	require.NoError(t, second.Release())
	require.True(t, abandoned(false))
	third, err := Join(t.Context(), dataDir, Options{})
	require.NoError(t, err, "the check alone does not keep commands out")
	require.NoError(t, third.Release())

	require.True(t, abandoned(true))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Join(ctx, dataDir, Options{})
	require.ErrorIs(t, err, context.Canceled, "a stopping stack keeps new commands waiting")
	require.ErrorContains(t, err, "join the embedded stack on "+dataDir)
}

// The locks of a killed stack outlive its listeners briefly.
func TestLease_Ends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dataDir := filepath.Join(t.TempDir(), "data")
		c, _ := serve(t, dataDir, someStack(dataDir))
		lease, err := Join(t.Context(), dataDir, Options{})
		require.NoError(t, err)
		defer func() { _ = lease.Release() }()
		require.False(t, lease.Ends(t.Context()), "it serves")
		time.AfterFunc(time.Second, c.Withdraw)
		require.True(t, lease.Ends(t.Context()))
	})
}

// A command waits for a stack that another command starts, within its time limit.
func TestJoin_starting(t *testing.T) {
	t.Parallel()
	dir := directory(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, dir.createPrivate())
	owner, err := filelock.Try(dir.lockFile(), filelock.Exclusive)
	require.NoError(t, err)
	t.Cleanup(func() { _ = owner.Close() })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	_, _, err = dir.joinOrLaunch(ctx, Options{})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// If everybody could take the locks, everybody could stop the stack.
func TestJoin_worldWritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err := Join(t.Context(), dir, Options{})
	require.ErrorContains(t, err, "it is world-writable; choose another with --data-dir, or chmod 700 it")
}

// The child takes over only the lock of its data directory, and only if its starter hands it
// over.
func TestAdopt_refuses(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"":                `read the order of the embedded stack: EOF; it is started by other commands only`,
		"hello":           "it is started by other commands only",
		`{"data_dir":""}`: "locate the data directory: the name is empty",
	} {
		_, err := Adopt(strings.NewReader(input))
		require.ErrorContains(t, err, want)
	}
}

// Only the first report reaches the starter.
func TestChild_Fail(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.Close() })
	c := &Child{reports: in}
	c.Fail(os.ErrPermission)
	c.Fail(os.ErrExist)
	var sent bytes.Buffer
	_, err = sent.ReadFrom(out)
	require.NoError(t, err)
	require.JSONEq(t, `{"error":"permission denied"}`, sent.String())
}

// The log of the previous run is kept, and the one before that is removed.
func TestOpenLog(t *testing.T) {
	t.Parallel()
	dir := directory(t.TempDir())
	for _, line := range []string{"first", "second", "third"} {
		log, err := dir.openLog()
		require.NoError(t, err)
		_, err = log.WriteString(line)
		require.NoError(t, err)
		require.NoError(t, log.Close())
	}
	require.Equal(t, "third", logTail(dir.logFile()))
	require.Equal(t, "second", logTail(dir.logFile()+".1"))
	logs, err := os.ReadDir(filepath.Dir(dir.logFile()))
	require.NoError(t, err)
	require.Len(t, logs, 2)
	info, err := os.Stat(dir.logFile())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, dir.logFile(), (&Child{dir: dir}).LogFile())
}

func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	require.Contains(t, logTail(name), "no such file")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("line\n", 1000)+"fatal: port taken\n"), 0o600))
	end := logTail(name)
	require.LessOrEqual(t, len(end), 2000)
	require.True(t, strings.HasSuffix(end, "line\nfatal: port taken"))
}

func TestPaths(t *testing.T) {
	t.Parallel()
	require.Equal(t, filepath.Join("data", "workers"), Workers("data"))
	require.Equal(t, filepath.Join("data", "s3"), Objects("data"))
}

// Commands find the pages of a dev while it serves them, and only those of the first.
func TestPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, ok := FindPages(dir)
	require.False(t, ok)
	first := Pages{Address: "http://127.0.0.1:8333", PID: 12}
	withdraw, err := first.Announce(dir)
	require.NoError(t, err)
	second, err := Pages{Address: "http://127.0.0.1:1", PID: 13}.Announce(dir)
	require.NoError(t, err)
	found, ok := FindPages(dir)
	require.True(t, ok)
	require.Equal(t, first, found)
	second()
	withdraw()
	_, ok = FindPages(dir)
	require.False(t, ok)

	withdraw, err = Pages{Address: "http://[::1]:9", PID: 1}.Announce(dir)
	require.NoError(t, err)
	defer withdraw()
	found, ok = FindPages(dir)
	require.True(t, ok)
	require.Equal(t, 1, found.PID, "a shorter record replaces a longer one")
}

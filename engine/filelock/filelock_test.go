package filelock_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/filelock"
)

func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	try := func(mode filelock.Mode) *os.File {
		t.Helper()
		f, err := filelock.Try(path, mode)
		require.NoError(t, err)
		return f
	}
	first, second := try(filelock.Shared), try(filelock.Shared)
	require.NotNil(t, first)
	require.NotNil(t, second, "shared locks stand together")
	require.Nil(t, try(filelock.Exclusive))

	again, err := filelock.TryFile(first, filelock.Exclusive)
	require.NoError(t, err)
	require.False(t, again)
	require.NoError(t, second.Close())
	again, err = filelock.TryFile(first, filelock.Exclusive)
	require.NoError(t, err)
	require.True(t, again, "the same open file")
	require.Nil(t, try(filelock.Shared))
	require.NoError(t, first.Close())
	require.NoError(t, try(filelock.Exclusive).Close())
}

func TestWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := filelock.Try(path, filelock.Exclusive)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = filelock.Wait(ctx, path, filelock.Exclusive)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	time.AfterFunc(30*time.Millisecond, func() { _ = holder.Close() })
	waiter, err := filelock.Wait(t.Context(), path, filelock.Exclusive)
	require.NoError(t, err)
	require.NoError(t, waiter.Close())
}

func TestWait_removedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := filelock.Try(path, filelock.Exclusive)
	require.NoError(t, err)
	time.AfterFunc(200*time.Millisecond, func() {
		_ = os.Remove(path)
		_ = holder.Close()
	})
	waiter, err := filelock.Wait(t.Context(), path, filelock.Exclusive)
	require.NoError(t, err)
	require.NoFileExists(t, path, "the file that was opened is locked, not a new one")
	require.NoError(t, waiter.Close())
}

func TestTry_missingDirectory(t *testing.T) {
	t.Parallel()
	_, err := filelock.Try(filepath.Join(t.TempDir(), "none", "lock"), filelock.Shared)
	require.ErrorIs(t, err, os.ErrNotExist)
}

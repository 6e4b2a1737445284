package filelock

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	try := func(mode mode) *os.File {
		t.Helper()
		f, err := Try(path, mode)
		require.NoError(t, err)
		return f
	}
	first, second := try(Shared), try(Shared)
	require.NotNil(t, first)
	require.NotNil(t, second, "shared locks stand together")
	require.Nil(t, try(Exclusive))

	again, err := TryFile(first, Exclusive)
	require.NoError(t, err)
	require.False(t, again)
	require.NoError(t, second.Close())
	again, err = TryFile(first, Exclusive)
	require.NoError(t, err)
	require.True(t, again, "the same open file")
	require.Nil(t, try(Shared))
	require.NoError(t, first.Close())
	require.NoError(t, try(Exclusive).Close())
}

func TestWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := Try(path, Exclusive)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = Wait(ctx, path, Exclusive)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	time.AfterFunc(30*time.Millisecond, func() { _ = holder.Close() })
	waiter, err := Wait(t.Context(), path, Exclusive)
	require.NoError(t, err)
	require.NoError(t, waiter.Close())
}

func TestWait_removedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := Try(path, Exclusive)
	require.NoError(t, err)
	time.AfterFunc(200*time.Millisecond, func() {
		_ = os.Remove(path)
		_ = holder.Close()
	})
	waiter, err := Wait(t.Context(), path, Exclusive)
	require.NoError(t, err)
	require.NoFileExists(t, path, "the file that was opened is locked, not a new one")
	require.NoError(t, waiter.Close())
}

func TestTry_missingDirectory(t *testing.T) {
	t.Parallel()
	_, err := Try(filepath.Join(t.TempDir(), "none", "lock"), Shared)
	require.ErrorIs(t, err, os.ErrNotExist)
}

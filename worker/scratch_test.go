package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScratchOfADeadProcessIsRemoved(t *testing.T) {
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

package filelock

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func openScratch(t *testing.T, parent, kind string) *Scratch {
	t.Helper()
	d, err := OpenScratch(parent, kind)
	require.NoError(t, err)
	return d
}

func TestOpen_removesDirectoriesOfDeadProcesses(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	living, dead, probed := openScratch(t, parent, Worker), openScratch(t, parent, Worker), openScratch(t, parent, Probe)
	require.NoError(t, os.WriteFile(filepath.Join(dead.Path, "left.txt"), nil, 0o400))
	for _, killed := range []*Scratch{dead, probed} {
		require.NoError(t, killed.lock.Close()) // as the kernel does for a killed process
	}
	unlocked := filepath.Join(parent, Probe+"123") // its process was killed before it could lock it
	require.NoError(t, os.Mkdir(unlocked, 0o700))
	lock := filepath.Join(parent, Shell+"123"+lockSuffix)
	require.NoError(t, os.WriteFile(lock, nil, 0o600))

	next := openScratch(t, parent, Worker)
	for _, gone := range []string{dead.Path, dead.lock.Name(), probed.Path, probed.lock.Name(), unlocked, lock} {
		require.NoFileExists(t, gone)
		require.NoDirExists(t, gone)
	}
	require.DirExists(t, living.Path)
	require.NotEqual(t, living.Path, next.Path)
	living.Close()
	next.Close()
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The names must be exactly those that Open makes.
func TestOpen_leavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	for _, name := range []string{"conclave-worker-notes", "sandbox-probe-", "my-sandbox-probe-1", "conclave-1", "conclave-worker-1.lock.txt"} {
		require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o700))
	}
	elsewhere := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(elsewhere, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(elsewhere), filepath.Join(parent, Probe+"7")))
	openScratch(t, parent, Probe).Close()
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, left, 5)
	require.FileExists(t, elsewhere, "a link is removed, not what it names")
}

// The temporary directory is shared: what another user left there is neither locked nor removed,
// even by root.
func TestOpen_leavesOtherUsersAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	parent := t.TempDir()
	theirs, lock, bare := filepath.Join(parent, Worker+"1"), filepath.Join(parent, Worker+"1"+lockSuffix), filepath.Join(parent, Probe+"2")
	for _, dir := range []string{theirs, bare} {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chown(dir, 65534, 65534))
	}
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	require.NoError(t, os.Chown(lock, 65534, 65534))
	openScratch(t, parent, Worker).Close()
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, left, 3, "no lock was added")
}

func TestOpen_besideOthersThatSweep(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 8 {
				d, err := OpenScratch(parent, Probe)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(d.Path, "used"), nil, 0o600))
				d.Close()
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}

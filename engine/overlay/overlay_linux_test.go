package overlay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/overlay"
)

// stand is an overlay for a test.
type stand struct {
	*overlay.Mounts
	home, lower, upper, work, at string
}

func open(t *testing.T) *stand {
	t.Helper()
	mounts, err := overlay.Open()
	if err != nil {
		t.Skip("this machine has no namespaces for this user: ", err)
	}
	t.Cleanup(mounts.Close)
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	s := &stand{Mounts: mounts, home: home}
	user, group := overlay.Owner()
	for name, dir := range map[string]*string{"lo,w:er \\": &s.lower, "up:per": &s.upper, "wo,rk": &s.work, "a t\n": &s.at} {
		*dir = filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(*dir, 0o755))
	}
	require.NoError(t, os.Chown(s.lower, user, group))
	s.put(t, "kept", "lower")
	s.put(t, "sub/changed", "lower")
	s.put(t, "sub/removed", "lower")
	return s
}

// put writes a file below the overlay.
func (s *stand) put(t *testing.T, name, content string) {
	t.Helper()
	user, group := overlay.Owner()
	name = filepath.Join(s.lower, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	require.NoError(t, os.Chown(filepath.Dir(name), user, group))
	require.NoError(t, os.Chown(name, user, group))
}

func (s *stand) mount(t *testing.T) string {
	t.Helper()
	require.NoError(t, s.Overlay(s.lower, s.upper, s.work, s.at))
	return s.Path(s.at)
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	s := open(t)
	seen := s.mount(t)
	read := func(name string) string {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(content)
	}
	require.Equal(t, "lower", read(filepath.Join(seen, "kept")))
	require.NoError(t, os.WriteFile(filepath.Join(seen, "sub/changed"), []byte("upper"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(seen, "sub/removed")))
	require.NoError(t, os.WriteFile(filepath.Join(seen, "new"), nil, 0o600))
	require.Equal(t, "upper", read(filepath.Join(seen, "sub/changed")))
	require.NoFileExists(t, filepath.Join(seen, "sub/removed"))
	require.Equal(t, "lower", read(filepath.Join(s.lower, "sub/changed")))
	require.FileExists(t, filepath.Join(s.lower, "sub/removed"))
	require.NoFileExists(t, filepath.Join(s.lower, "new"))
	entries, err := os.ReadDir(s.at)
	require.NoError(t, err)
	require.Empty(t, entries, "other namespaces do not see the mount")

	require.NoError(t, os.Mkdir(filepath.Join(seen, "base"), 0o755))
	require.NoError(t, s.ReadOnly(s.lower, s.at, "base"))
	require.Equal(t, "lower", read(filepath.Join(seen, "base/sub/changed")))
	require.Error(t, os.WriteFile(filepath.Join(seen, "base/kept"), nil, 0o644))
	require.Error(t, os.Remove(filepath.Join(seen, "base/kept")))
	require.Error(t, os.Chmod(filepath.Join(seen, "base/kept"), 0o777))

	require.NoError(t, os.Rename(filepath.Join(seen, "base"), filepath.Join(seen, "moved")))
	require.NoError(t, s.Unmount(s.at, "base"))
	entries, err = os.ReadDir(filepath.Join(seen, "moved"))
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, s.Unmount(s.at, ""))
	require.NoFileExists(t, filepath.Join(seen, "kept"))
	require.NoError(t, s.Unmount(s.at, ""), "a second time")
}

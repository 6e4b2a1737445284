package overlay_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
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
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(home)) })
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

// A path with a link in it names no mount, and a directory that does not exist cannot be one.
func TestOverlay_refusals(t *testing.T) {
	t.Parallel()
	s := open(t)
	require.ErrorContains(t, s.Overlay(s.lower+"-missing", s.upper, s.work, s.at), "-missing")
	require.Error(t, s.ReadOnly(s.lower, s.at, "sub"), "there is no overlay yet")
	_, err := s.Clone(s.at, os.Geteuid())
	require.Error(t, err)
	link := filepath.Join(s.home, "link", filepath.Base(s.at))
	require.NoError(t, os.Symlink(s.home, filepath.Dir(link)))
	require.ErrorContains(t, s.Overlay(s.lower, s.upper, s.work, link), "cannot be seen")
	require.NoError(t, s.Unmount(link, ""))
	require.Error(t, s.Overlay(s.lower, s.upper, s.work, s.at), "the directories of an earlier mount")
	require.Nil(t, s.Tree(s.at))
	require.Nil(t, (*overlay.Mounts)(nil).Tree(s.at))
}

// The holder keeps neither descriptors nor mounts of what was unmounted or could not be mounted.
func TestUnmount_leavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	kept := func() [2]int {
		open, err := os.ReadDir(filepath.Dir(s.Path("/")) + "/fd")
		require.NoError(t, err)
		mounts, err := os.ReadFile(filepath.Dir(s.Path("/")) + "/mountinfo")
		require.NoError(t, err)
		return [2]int{len(open), strings.Count(string(mounts), "\n")}
	}
	require.NoError(t, s.Unmount(s.at, ""))
	before := kept()
	seen := s.mount(t)
	require.NoError(t, os.Mkdir(filepath.Join(seen, "base"), 0o755))
	require.NoError(t, s.ReadOnly(s.lower, s.at, "base"))
	require.Error(t, s.ReadOnly(s.lower+"-missing", s.at, "base"))
	require.Error(t, s.ReadOnly(s.lower, s.at, "missing"))
	require.Error(t, s.Overlay(s.lower, s.upper+"-missing", s.work, s.at+"-other"))
	tree, err := s.Clone(s.at, os.Geteuid())
	require.NoError(t, err)
	require.NoError(t, tree.Close())
	require.NoError(t, s.Unmount(s.at, "base"))
	require.NoError(t, s.Unmount(s.at, ""))
	require.Equal(t, before, kept())
}

// A clone gives the files that this process has written to another user, and leaves the others alone.
func TestClone_givesFiles(t *testing.T) {
	t.Parallel()
	s := open(t)
	seen := s.mount(t)
	require.NoError(t, os.MkdirAll(filepath.Join(seen, "new/deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(seen, "new/deep/f"), nil, 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(seen, "new/link")))
	require.NoError(t, os.Remove(filepath.Join(seen, "sub/removed")))
	require.NoError(t, os.Mkdir(filepath.Join(seen, "base"), 0o755))
	require.NoError(t, s.ReadOnly(s.lower, s.at, "base"))
	user, _ := overlay.Owner()
	tree, err := s.Tree(seen)(user)
	require.NoError(t, err)
	require.NoError(t, tree.Close())
	for _, name := range []string{".", "kept", "sub", "new", "new/deep", "new/deep/f", "new/link", "base", "base/kept"} {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(filepath.Join(seen, name), &st))
		require.EqualValues(t, user, st.Uid, name)
	}
	require.NoFileExists(t, filepath.Join(seen, "sub/removed"))
}

// startMounter starts a process that mounts an overlay below a directory with the given ones. It
// returns the path of a file in the overlay.
func startMounter(t *testing.T, attributes *syscall.SysProcAttr, dirs ...string) (*exec.Cmd, string) {
	t.Helper()
	open(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(dir)) })
	for _, name := range append(dirs, "lower", "upper", "work", "at") {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lower/file"), nil, 0o644))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), mounter+"="+dir), attributes
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	seen, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	seen = strings.TrimSpace(seen)
	require.FileExists(t, seen)
	return cmd, seen
}

// The mounts and their holder end with a process that is killed.
func TestOpen_killed(t *testing.T) {
	t.Parallel()
	cmd, seen := startMounter(t, nil)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { _, err := os.Stat(seen); return err != nil }, time.Minute, time.Millisecond)
}

// The holder does not keep a file system that is unmounted elsewhere.
func TestOpen_unmountsElsewhere(t *testing.T) {
	t.Parallel()
	same := func(id int) syscall.SysProcIDMap {
		return syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1}
	}
	a := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{same(os.Geteuid())}, GidMappings: []syscall.SysProcIDMap{same(os.Getegid())},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
	if user, group := overlay.Owner(); user != os.Geteuid() {
		a.UidMappings, a.GidMappings = append(a.UidMappings, same(user)), append(a.GidMappings, same(group))
	}
	cmd, seen := startMounter(t, a, "volume")
	mounts, err := os.ReadFile(filepath.Join("/proc", strings.Split(seen, "/")[2], "mountinfo"))
	require.NoError(t, err)
	require.Contains(t, string(mounts), " overlay ")
	require.NotContains(t, string(mounts), "/volume ")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}

// The mounts outlast the signals that a service manager sends to all processes of a worker.
func TestOpen_signals(t *testing.T) {
	t.Parallel()
	s := open(t)
	seen := s.mount(t)
	holder, err := strconv.Atoi(strings.Split(seen, "/")[2])
	require.NoError(t, err)
	for _, number := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		require.NoError(t, unix.Kill(holder, number))
	}
	tree, err := s.Clone(s.at, os.Geteuid())
	require.NoError(t, err)
	require.NoError(t, tree.Close())
	require.FileExists(t, filepath.Join(seen, "kept"))
}

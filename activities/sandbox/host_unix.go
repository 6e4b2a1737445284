//go:build unix

package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// directoryUsage walks a directory while other processes may write to it. It uses open descriptors and
// does not follow links. It gives the owner missing permissions: on directories always, on files
// only if access is set. It calls check with the number of files so far and stops at an error.
func directoryUsage(path string, check func(int) error, access bool) (usage, error) {
	fd, err := enterDirectory(unix.AT_FDCWD, path)
	if err != nil {
		return usage{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	w := walk{check: check, access: access}
	err = w.walkDirectory(fd, path, 0)
	return w.sum, err
}

type walk struct {
	sum    usage
	check  func(int) error
	access bool
}

func (w *walk) walkDirectory(fd int, name string, depth int) error {
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if depth > maxDepth {
		return exceeded(endedFiles)
	}
	if w.access {
		w.permitOwner(fd)
	}
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			if err := w.addEntry(fd, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if w.check != nil {
			if err := w.check(w.sum.files); err != nil {
				return err
			}
		}
	}
}

func (w *walk) addEntry(fd int, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreGone(err)
	}
	w.sum.files++
	w.sum.bytes += max(st.Size, st.Blocks*512)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		sub, err := enterDirectory(fd, name)
		if err != nil {
			return ignoreGone(err)
		}
		return w.walkDirectory(sub, name, depth+1)
	case unix.S_IFREG:
		if w.access && st.Mode&unix.S_IRUSR == 0 && st.Nlink == 1 {
			return ignoreGone(ignoreDenied(unix.Fchmodat(fd, name, uint32(st.Mode&0o777|unix.S_IRUSR), unix.AT_SYMLINK_NOFOLLOW)))
		}
	}
	return nil
}

func (w *walk) permitOwner(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 && int(st.Uid) == os.Geteuid() {
		_ = unix.Fchmod(fd, uint32(st.Mode&0o777|0o700)) // fails for another user's directory
	}
}

// enterDirectory opens a directory. If necessary, it first gives the owner permission.
func enterDirectory(fd int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	sub, err := unix.Openat(fd, name, flags, 0)
	if errors.Is(err, unix.EACCES) && unix.Fchmodat(fd, name, 0o700, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.Openat(fd, name, flags, 0)
	}
	return sub, err
}

// ignoreGone ignores errors for files that were removed or changed their type during the walk.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// ignoreDenied ignores errors from permissions that this user cannot change.
func ignoreDenied(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// freeSpace returns the free space of a directory's file system. files is 0 if the file system does
// not limit their number.
func freeSpace(dir string) (usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return usage{}, err
	}
	return usage{bytes: int64(st.Bavail) * int64(st.Bsize), files: int(st.Ffree)}, nil
}

func sameVolume(a, b string) bool {
	var first, second unix.Stat_t
	return unix.Stat(a, &first) == nil && unix.Stat(b, &second) == nil && first.Dev == second.Dev
}

// ownGroup makes a command start in a new process group, for killGroup.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killGroup kills a process group. It ignores an empty group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func signalOf(state *os.ProcessState) (int, string) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, ""
	}
	return int(status.Signal()), unix.SignalName(status.Signal())
}

// limitOwnMemory limits the private memory of this process, in bytes.
func limitOwnMemory(limit uint64) {
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}) // the sandbox has a limit too
}

package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
)

// HasOwner reports whether a file belongs to the owner that mounts require.
func HasOwner(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	user, group := overlay.Owner()
	return ok && int(st.Uid) == user && int(st.Gid) == group
}

// canGive reports whether this process may give the files of a directory to the owner that mounts
// require: they are its own, or another mount has begun to.
func canGive(dir *os.File) bool {
	info, err := dir.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() || HasOwner(info)
}

// lockTree locks an unpacked base against its removal.
func lockTree(tree string) (*os.File, error) {
	f, err := os.Open(tree)
	if err != nil {
		return nil, err
	}
	locked, err := filelock.TryFile(f, filelock.Shared)
	if err == nil && !locked {
		err = fmt.Errorf("another process is removing %s", tree)
	}
	if err == nil {
		var opened, named os.FileInfo
		opened, err = f.Stat()
		if err == nil {
			named, err = os.Stat(tree)
		}
		if err == nil && !os.SameFile(opened, named) {
			err = fmt.Errorf("another process has removed %s", tree)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func removeUnused(tree string) (bool, error) {
	if f, err := os.Open(tree); err == nil {
		defer f.Close()
		if free, err := filelock.TryFile(f, filelock.Exclusive); err == nil && !free {
			return false, nil
		}
	}
	return true, filelock.RemoveTree(tree)
}

// shareBlocks makes the empty file share the blocks of from. It reports whether the file system
// supports that.
func shareBlocks(to, from *os.File) bool {
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// clearAttributes removes a directory's extended attributes, in which a process could leave
// data for the next one. It keeps the label of the security module.
func clearAttributes(dir string) error {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(dir, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0}) {
		if len(name) == 0 || string(name) == "security.selinux" {
			continue
		}
		if err := unix.Lremovexattr(dir, string(name)); err != nil {
			return err
		}
	}
	return nil
}

package base

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"conclave/engine/filelock"
	"conclave/engine/overlay"
	"conclave/engine/scratch"
)

// hasOwner reports whether a file belongs to the owner that mounts require.
func hasOwner(info fs.FileInfo) bool {
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
	return ok && int(st.Uid) == os.Geteuid() || hasOwner(info)
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

// removeUnused removes an unpacked base unless it is mounted. It reports whether it has.
func removeUnused(tree string) (bool, error) {
	if f, err := os.Open(tree); err == nil {
		defer f.Close()
		if free, err := filelock.TryFile(f, filelock.Exclusive); err == nil && !free {
			return false, nil
		}
	}
	return true, scratch.RemoveTree(tree)
}

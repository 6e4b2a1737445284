package base

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes the empty file share the blocks of from. It reports whether the file system
// supports that.
func clone(to, from *os.File) bool {
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

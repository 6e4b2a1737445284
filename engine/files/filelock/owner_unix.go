//go:build unix

package filelock

import (
	"os"
	"syscall"
)

// isOwnFile reports whether a file belongs to this process's user.
func isOwnFile(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && int(st.Uid) == os.Geteuid()
}

//go:build unix

package patch

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// identity names a directory by its device and inode, which no program can choose.
func identity(root *os.Root) (string, error) {
	info, err := root.Stat(".")
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("its file system has no inodes; name another directory")
	}
	return fmt.Sprintf("%d-%d", st.Dev, st.Ino), nil
}

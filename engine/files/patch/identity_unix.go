//go:build unix

package patch

import (
	"fmt"
	"os"
	"syscall"
)

// dirIdentity names a directory by its device and inode, which no program can choose.
func dirIdentity(root *os.Root) (string, error) {
	info, err := root.Stat(".")
	if err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // what Stat returns on these systems
	return fmt.Sprintf("%d-%d", st.Dev, st.Ino), nil
}

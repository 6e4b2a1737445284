//go:build !windows

package directory

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file until it is closed, alone or with others who do not want
// it alone; false if somebody has it.
func tryLock(f *os.File, alone bool) (bool, error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

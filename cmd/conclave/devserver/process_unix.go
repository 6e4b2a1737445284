//go:build linux || darwin

package devserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// flock takes the lock on an open file without waiting. Repeated on the same
// open file, also by a process that inherited it, it succeeds again.
func flock(file *os.File, mode lockMode) (held bool, err error) {
	how := syscall.LOCK_SH
	if mode == exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// detach puts the child in a session of its own: neither an interrupt typed at
// the command's terminal nor the closing of that terminal reaches it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// ownerOnly makes every file that this process creates private.
func ownerOnly() {
	syscall.Umask(0o077)
}

// inherited opens a file that the parent left open for this process, which
// must not pass it on.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}

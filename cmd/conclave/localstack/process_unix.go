//go:build linux || darwin

package localstack

import (
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return nil }

// detach starts the child in its own session, out of reach of the terminal's signals.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// ownerOnly makes all new files of the process private.
func ownerOnly() {
	syscall.Umask(0o077)
}

// inherited opens an inherited file descriptor, which is not inherited further.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}

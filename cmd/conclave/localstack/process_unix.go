//go:build linux || darwin

package localstack

import (
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return nil }

// detach starts the child in its own session, so that it receives no signals from the terminal.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// ownerOnly makes all new files of the process private.
func ownerOnly() {
	syscall.Umask(0o077)
}

// inherited opens an inherited file descriptor and prevents child processes from inheriting it.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}

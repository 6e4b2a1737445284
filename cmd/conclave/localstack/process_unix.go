//go:build linux || darwin

package localstack

import (
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return nil }

// detach starts the child in its own session, so that neither an interrupt at the
// command's terminal nor the closing of that terminal reaches it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// ownerOnly makes all new files of the process private.
func ownerOnly() {
	syscall.Umask(0o077)
}

// inherited opens an inherited file descriptor and keeps it from being inherited
// further.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}

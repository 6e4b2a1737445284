//go:build linux || darwin

package local

import (
	"os"
	"os/exec"
	"syscall"
)

func requireSupported() error { return nil }

// detachChild starts the child in its own session, so that it receives no signals from the terminal.
func detachChild(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

func ownerOnly() {
	syscall.Umask(0o077)
}

// openInherited opens an inherited file descriptor and prevents child processes from inheriting it.
func openInherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}

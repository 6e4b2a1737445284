//go:build linux || darwin

package localstack

import (
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return nil }

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

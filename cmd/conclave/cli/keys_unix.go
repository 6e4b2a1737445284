//go:build linux || darwin

package cli

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hasKeys reports whether the process may use the terminal. As a job in the background of a shell, it
// would be stopped.
func hasKeys(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// setKeys makes a terminal pass on each key without showing it, or lines as usual. A change discards
// what was typed and not read.
func setKeys(tty *os.File, keys bool) {
	at, err := unix.IoctlGetTermios(int(tty.Fd()), readTermios)
	if err != nil || !hasKeys(tty) {
		return
	}
	const lines = unix.ICANON | unix.ECHO
	switch {
	case !keys:
		at.Lflag |= lines
	case at.Lflag&lines == 0:
		return
	default:
		at.Lflag &^= lines
	}
	_ = unix.IoctlSetTermios(int(tty.Fd()), flushTermios, at)
}

// readTyped returns what is typed, or "" after keyPause.
func readTyped(tty *os.File) string {
	typed := []unix.PollFd{{Fd: int32(tty.Fd()), Events: unix.POLLIN}}
	if ready, err := unix.Poll(typed, int(keyPause/time.Millisecond)); err != nil || ready == 0 || !hasKeys(tty) {
		return ""
	}
	buffer := make([]byte, 4<<10)
	n, err := unix.Read(int(tty.Fd()), buffer)
	if err != nil || n <= 0 { // the terminal is gone, or another read was faster
		time.Sleep(keyPause)
		return ""
	}
	return string(buffer[:n])
}

// detach keeps Ctrl-C from a program.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

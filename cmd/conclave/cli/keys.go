//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keys reads the keys typed at a terminal at once and without showing it. Ctrl-C and Ctrl-Z keep their
// meaning.
type Keys struct {
	fd    int
	saved unix.Termios
}

// OpenKeys returns the keys of a person who sees a display that redraws a block, or nil.
func (c *CLI) OpenKeys(d Display) *Keys {
	if _, redraws := d.(*board); !redraws || !c.CanConfirm() {
		return nil
	}
	k := &Keys{fd: int(c.Stdin.(*os.File).Fd())}
	saved, err := unix.IoctlGetTermios(k.fd, readTermios)
	if err != nil || !k.isForeground() {
		return nil
	}
	k.saved = *saved
	return k
}

// Listen passes typed keys to press until ctx ends. Then it discards unread ones, and the
// terminal is as before.
func (k *Keys) Listen(ctx context.Context, press func(typed string)) {
	const pause = 100 * time.Millisecond
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	continued <- syscall.SIGCONT // sets the terminal for the first time
	defer func() {
		if k.isForeground() {
			_ = unix.IoctlSetTermios(k.fd, flushTermios, &k.saved)
		}
	}()
	buffer := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if !k.isForeground() { // reading would stop the process
			time.Sleep(pause)
			continue
		}
		select {
		case <-continued:
			at := k.saved
			at.Lflag &^= unix.ICANON | unix.ECHO
			at.Cc[unix.VMIN], at.Cc[unix.VTIME] = 0, 0
			_ = unix.IoctlSetTermios(k.fd, flushTermios, &at)
		default:
		}
		typed := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}
		if ready, err := unix.Poll(typed, int(pause/time.Millisecond)); err != nil || ready == 0 {
			continue
		}
		switch n, err := unix.Read(k.fd, buffer); {
		case n > 0:
			press(string(buffer[:n]))
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return // the terminal is gone
		}
	}
}

// isForeground reports whether the process may use the terminal, which it may not as a shell's job in
// the background.
func (k *Keys) isForeground() bool {
	group, err := unix.IoctlGetInt(k.fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// discardTyped discards typed input that was not read.
func discardTyped(tty *os.File) {
	if now, err := unix.IoctlGetTermios(int(tty.Fd()), readTermios); err == nil {
		_ = unix.IoctlSetTermios(int(tty.Fd()), flushTermios, now)
	}
}

// OpenBrowser opens an address in $BROWSER, or the system's browser.
func OpenBrowser(address string) error {
	program := []string{"xdg-open"}
	switch named := strings.Fields(os.Getenv("BROWSER")); {
	case len(named) > 0:
		program = named
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return fmt.Errorf("open %s in a browser: there is no screen for one here", address)
	}
	cmd := exec.Command(program[0], append(program[1:], address)...) //nolint:gosec // the person's own browser
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}            // Ctrl-C is not for the browser
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open %s in a browser: %w; $BROWSER names one", address, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

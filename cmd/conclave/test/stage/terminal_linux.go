package stage

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal operated by a test.
type Terminal struct {
	TTY *os.File // terminal for the command

	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
}

// NewTerminal opens a pseudo-terminal.
func NewTerminal(t *testing.T) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	raw, err := master.SyscallConn() // Fd would make it blocking
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		if number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
	}))
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	term := &Terminal{TTY: tty, t: t, master: master}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(term, master)
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		_ = master.Close()
		<-read
	})
	return term
}

// Write receives output of the command under test.
func (term *Terminal) Write(p []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.Write(p)
}

// Shown returns everything that the terminal has shown.
func (term *Terminal) Shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return strings.ReplaceAll(term.shown.String(), "\r\n", "\n")
}

// Type waits until the terminal shows a prompt, then types keys.
func (term *Terminal) Type(prompt, keys string) {
	term.t.Helper()
	require.Eventually(term.t, func() bool { return strings.HasSuffix(term.Shown(), prompt) }, time.Minute, 5*time.Millisecond, "waiting for %q", prompt)
	_, err := term.master.WriteString(keys)
	require.NoError(term.t, err)
}

//go:build linux

package attack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// victim is a process of the host that has nothing to do with the sandbox.
type victim struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// suffer is the victim: it says where its secret lies in its memory, and ends when
// somebody changes that, or after two minutes.
func suffer(stdout io.Writer) error {
	held := []byte(os.Getenv(keyVariable))
	if len(held) == 0 {
		return fmt.Errorf("%s is not set", keyVariable)
	}
	was := bytes.Clone(held)
	fmt.Fprintln(stdout, uint64(uintptr(unsafe.Pointer(&held[0]))))
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !bytes.Equal(held, was) {
			return fmt.Errorf("my memory was changed")
		}
	}
	return nil
}

// plantVictim starts one.
func plantVictim(s *scene) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, ChildCommand, "victim")
	cmd.Env = []string{keyVariable + "=" + s.secret}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a victim: %w", err)
	}
	s.victim = &victim{cmd: cmd, gone: make(chan struct{})}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait() // it is killed
		close(s.victim.gone)
	}()
	if err != nil {
		return fmt.Errorf("start a victim: %w", err)
	}
	s.target.Victim = cmd.Process.Pid
	s.target.VictimAddress, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	return err
}

// dead reports whether the victim has died, a moment given.
func (v *victim) dead() bool {
	select {
	case <-v.gone:
		return true
	case <-time.After(200 * time.Millisecond):
		return false
	}
}

func (v *victim) end() {
	_ = v.cmd.Process.Kill() // it may be dead
	<-v.gone
}

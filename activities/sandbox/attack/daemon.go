//go:build linux

package attack

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// command is our own program in another part, inside.
func command(attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{ChildCommand}, args...)...)
	cmd.SysProcAttr = attr
	return cmd, nil
}

// spawn starts it.
func spawn(attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, error) {
	cmd, err := command(attr, args...)
	if err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// beat is a daemon: it writes to a file of the workspace for as long as it lives,
// a minute at most.
func beat(args []string) error {
	if len(args) < 1 {
		return errors.New("a daemon takes a file")
	}
	deafen()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := appendDot(args[0]); err != nil {
			return err
		}
	}
	return nil
}

// hop is a daemon that writes once, starts its successor and ends.
func hop(args []string) error {
	if len(args) != 3 {
		return errors.New("a hopping daemon takes a file, a token and how often it hops")
	}
	left, err := strconv.Atoi(args[2])
	if err != nil || left == 0 {
		return err
	}
	if err := appendDot(args[0]); err != nil {
		return err
	}
	_, err = spawn(apart, "hop", args[0], args[1], strconv.Itoa(left-1))
	return err
}

func appendDot(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(".")
	return errors.Join(err, f.Close())
}

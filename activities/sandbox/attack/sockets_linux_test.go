package attack

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketAttacks are further attacks through Unix sockets and terminals.
func socketAttacks() []attack {
	return []attack{
		{
			name: "unix_dgram", what: "send a datagram to a Unix socket of the host by its path, as to a system log", proof: socketReached,
			setup: func(s *scene) error { return s.openListener("unixgram", s.target.Outside+"/dgram") },
			try:   func(t target) (string, error) { return dialAddresses("unixgram", t.Addresses) },
		},
		{
			name: "unix_abstract_dgram", what: "send a datagram to an abstract Unix socket of the host", proof: socketReached,
			setup: func(s *scene) error { return s.openListener("unixgram", "@conclave-dgram-"+s.target.Token) },
			try:   func(t target) (string, error) { return dialAddresses("unixgram", t.Addresses) },
		},
		{
			name: "host_sockets", what: "connect to D-Bus, Docker, containerd, the SSH agent or the X server of the host",
			setup: setupServices, try: connectServices, proof: proofClaimed,
		},
		terminalAttack(),
	}
}

func setupServices(s *scene) error {
	uid := os.Getuid()
	for _, pattern := range []string{
		"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket",
		"/run/systemd/private", "/run/systemd/journal/stdout", "/tmp/.X11-unix/X*",
		fmt.Sprintf("/run/user/%d/bus", uid), fmt.Sprintf("/run/user/%d/docker.sock", uid), os.Getenv("SSH_AUTH_SOCK"),
	} {
		for _, path := range globPaths(pattern) {
			if connectUnix(path) == nil {
				s.target.Paths = append(s.target.Paths, path)
			}
		}
	}
	if len(s.target.Paths) == 0 {
		return skipAttack("no such service listens on this host")
	}
	return nil
}

// connectUnix sends nothing.
func connectUnix(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

func connectServices(t target) (string, error) {
	var errs []error
	for _, path := range t.Paths {
		err := connectUnix(path)
		if err == nil {
			return "it is connected to " + filepath.Base(path), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// terminalAttack gives the worker a terminal and reads its other side afterwards.
func terminalAttack() attack {
	var master *os.File
	return attack{
		name: "tty", what: "write to the worker's terminal, or type into it", try: useTerminal,
		setup: func(s *scene) (err error) {
			master, err = setupTerminal(s)
			return err
		},
		proof: func(s *scene, _ trial) string {
			buf := make([]byte, 64<<10)
			n, err := unix.Read(int(master.Fd()), buf)
			if err == nil && n > 0 && bytes.Contains(buf[:n], []byte(s.target.Token)) {
				return "the worker's terminal has shown the attacker's text"
			}
			return ""
		},
	}
}

func setupTerminal(s *scene) (*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, skipAttack("no terminal can be made: %v", err)
	}
	s.onClear(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, skipAttack("no terminal can be made: %v", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	terminal, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, skipAttack("no terminal can be made: %v", err)
	}
	s.onClear(func() { terminal.Close() })
	s.target.Paths = []string{name}
	s.configure = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
		cmd.ExtraFiles = []*os.File{terminal}
	}
	return master, unix.SetNonblock(fd, true)
}

// useTerminal writes the token to every terminal it finds, and types it.
func useTerminal(t target) (string, error) {
	var errs []error
	for _, path := range []string{"/dev/tty", t.Paths[0], "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", fmt.Sprintf("/proc/%d/fd/3", t.Worker)} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("open %s: %w", path, err))
			continue
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			continue
		}
		if err := typeInto(fd, t.Token); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
		if _, err := unix.Write(fd, []byte(t.Token)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return "", errors.Join(errs...)
}

func typeInto(fd int, text string) error {
	for i := range len(text) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSTI, int(text[i])); err != nil {
			return fmt.Errorf("TIOCSTI: %w", err)
		}
	}
	return nil
}

//go:build linux

package attack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// onSockets are attacks by way of Unix sockets and terminals.
func onSockets() []attack {
	return []attack{
		{
			name: "unix_path", what: "connect to a Unix socket of the host by its path",
			plant: func(s *scene) error { return s.listenUnix(s.target.Outside + "/stream") },
			try: func(t target) (string, error) {
				return done(connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: t.Socket}))
			},
			worked: reached,
		},
		{
			name: "unix_dgram", what: "send a datagram to a Unix socket of the host by its path, as to a system log",
			plant:  func(s *scene) error { return s.receiveUnix(s.target.Outside + "/dgram") },
			try:    func(t target) (string, error) { return done(send(unix.AF_UNIX, &unix.SockaddrUnix{Name: t.Socket})) },
			worked: reached,
		},
		{
			name: "unix_abstract", what: "connect to an abstract Unix socket of the host",
			plant: func(s *scene) error { return s.listenUnix("@conclave-" + s.target.Token) },
			try: func(t target) (string, error) {
				return done(connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: t.Socket}))
			},
			worked: reached,
		},
		{
			name: "unix_abstract_dgram", what: "send a datagram to an abstract Unix socket of the host",
			plant:  func(s *scene) error { return s.receiveUnix("@conclave-dgram-" + s.target.Token) },
			try:    func(t target) (string, error) { return done(send(unix.AF_UNIX, &unix.SockaddrUnix{Name: t.Socket})) },
			worked: reached,
		},
		{
			name: "host_sockets", what: "connect to D-Bus, Docker, containerd, the SSH agent or the X server of the host",
			plant: plantServices, try: connectServices, worked: claimed,
		},
		{
			name: "tty", what: "write to the worker's terminal, or type into it", plant: plantTerminal, try: useTerminal,
			worked: stolenTerminal,
		},
	}
}

func (s *scene) listenUnix(name string) error {
	s.target.Socket = name
	l, err := s.listen("unix", name)
	if err != nil {
		return err
	}
	if name[0] == '@' {
		return nil
	}
	return os.Chmod(l.Addr().String(), 0o777)
}

func (s *scene) receiveUnix(name string) error {
	s.target.Socket = name
	c, err := s.receive("unixgram", name)
	if err != nil {
		return err
	}
	if name[0] == '@' {
		return nil
	}
	return os.Chmod(c.LocalAddr().String(), 0o777)
}

func plantServices(s *scene) error {
	uid := os.Getuid()
	for _, pattern := range []string{
		"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket",
		"/run/systemd/private", "/run/systemd/journal/stdout", "/tmp/.X11-unix/X*",
		fmt.Sprintf("/run/user/%d/bus", uid), fmt.Sprintf("/run/user/%d/docker.sock", uid), os.Getenv("SSH_AUTH_SOCK"),
	} {
		for _, path := range glob(pattern) {
			if connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: path}) == nil {
				s.target.Paths = append(s.target.Paths, path)
			}
		}
	}
	if len(s.target.Paths) == 0 {
		return skip("no such service listens on this host")
	}
	return nil
}

// connectServices says nothing to them.
func connectServices(t target) (string, error) {
	var errs []error
	for _, path := range t.Paths {
		err := connect(unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: path})
		if err == nil {
			return "it is connected to " + filepath.Base(path), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// plantTerminal makes a terminal and gives it to the worker.
func plantTerminal(s *scene) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return skip("no terminal can be made: %v", err)
	}
	s.later(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return skip("no terminal can be made: %v", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	s.terminal, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return skip("no terminal can be made: %v", err)
	}
	s.later(func() { s.terminal.Close() })
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	s.target.Socket, s.master = name, fd
	return nil
}

// useTerminal writes the token to every terminal it finds, and types it.
func useTerminal(t target) (string, error) {
	var errs []error
	for _, path := range []string{"/dev/tty", t.Socket, "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", fmt.Sprintf("/proc/%d/fd/3", t.Worker)} {
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

// stolenTerminal looks at what the terminal's other side has seen.
func stolenTerminal(s *scene, _ trial) string {
	buf := make([]byte, 64<<10)
	n, err := unix.Read(s.master, buf)
	if err == nil && n > 0 && bytes.Contains(buf[:n], []byte(s.target.Token)) {
		return "the worker's terminal has shown the attacker's text"
	}
	return ""
}

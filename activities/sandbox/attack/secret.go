//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// onSecrets are attacks on what a worker knows.
func onSecrets() []attack {
	return []attack{
		{
			name: "env_secret", what: "read the worker's API key in the command's own environment",
			try:    func(target) (string, error) { return loot([]byte(strings.Join(os.Environ(), "\n"))) },
			worked: stolen,
		},
		{
			name: "parent_environ", what: "read the worker's API key in /proc/PID/environ of every process in sight",
			try:    func(t target) (string, error) { return lootFiles(ofProcesses(t, "environ")...) },
			worked: stolen,
		},
		{
			name: "parent_argv", what: "read a secret in the worker's arguments, in /proc/PID/cmdline",
			try:    func(t target) (string, error) { return lootFiles(ofProcesses(t, "cmdline")...) },
			worked: stolen,
		},
		{
			name: "inherited_fd", what: "read a file of the worker through a descriptor that was left open",
			plant: plantOpenFile, try: lootDescriptors, worked: stolen,
		},
		{
			name: "supervisor_fd", what: "open the worker's open files through /proc/PID/fd",
			plant: plantOpenFile,
			try: func(t target) (string, error) {
				return lootFiles(slicesOf(glob(fmt.Sprintf("/proc/%d/fd/*", t.Worker)), glob(fmt.Sprintf("/proc/%d/fd/*", os.Getppid())))...)
			},
			worked: stolen,
		},
		{
			name: "pidfd_getfd", what: "take an open file out of the worker with pidfd_getfd",
			plant: plantOpenFile, try: takeDescriptor, worked: stolen,
		},
		{
			name: "proc_root", what: "reach the host's files through /proc/PID/root and /proc/PID/cwd of other processes",
			try: func(t target) (string, error) {
				paths := ofProcesses(t, "root"+t.Secret)
				for _, cwd := range ofProcesses(t, "cwd") {
					paths = append(paths, cwd+"/outside/"+secretName, cwd+"/../outside/"+secretName, cwd+"/../.."+t.Secret)
				}
				return lootFiles(paths...)
			},
			worked: stolen,
		},
	}
}

// plantOpenFile opens the secret file in the worker, at several numbers, without
// close-on-exec; nobody can open it by its name.
func plantOpenFile(s *scene) error {
	for range 5 {
		f, err := os.Open(s.target.Secret)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
	}
	return os.Remove(s.target.Secret)
}

// ofProcesses are the paths below /proc/PID of the worker, of the attacker's
// parent, and of every process in sight.
func ofProcesses(t target, name string) []string {
	paths := []string{fmt.Sprintf("/proc/%d/%s", t.Worker, name), fmt.Sprintf("/proc/%d/%s", os.Getppid(), name)}
	for _, dir := range glob("/proc/[0-9]*") {
		if dir != fmt.Sprintf("/proc/%d", os.Getpid()) {
			paths = append(paths, dir+"/"+name)
		}
	}
	return paths
}

func glob(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	return paths
}

func slicesOf(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// lootFiles reads files, the first of each, until one has a secret. All secrets
// are collected: the files of other programs may have some.
func lootFiles(paths ...string) (string, error) {
	var all []string
	var first error
	for _, path := range paths {
		data, err := readFirst(path)
		if err == nil {
			var found string
			if found, err = loot(data); err == nil {
				all = append(all, found)
			}
		}
		if first == nil {
			first = err
		}
	}
	if len(all) > 0 {
		return strings.Join(all, " "), nil
	}
	if first == nil {
		first = errors.New("there is nothing to read")
	}
	return "", first
}

// readFirst reads up to 32 KiB of a file and never waits for data.
func readFirst(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return readDescriptor(fd)
}

func readDescriptor(fd int) ([]byte, error) {
	buf := make([]byte, 32<<10)
	n, err := unix.Pread(fd, buf, 0)
	if errors.Is(err, syscall.ESPIPE) || errors.Is(err, syscall.EINVAL) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return buf[:n], nil
}

func lootDescriptors(target) (string, error) {
	for fd := 3; fd < 1024; fd++ {
		data, err := readDescriptor(fd)
		if err != nil {
			continue
		}
		if found, err := loot(data); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no open descriptor has a secret")
}

func takeDescriptor(t target) (string, error) {
	var errs []error
	for _, pid := range []int{t.Worker, os.Getppid()} {
		p, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("pidfd_open %d: %w", pid, err))
			continue
		}
		for n := range 16 {
			fd, err := unix.PidfdGetfd(p, n, 0)
			if err != nil {
				errs = append(errs, fmt.Errorf("pidfd_getfd: %w", err))
				continue
			}
			data, err := readDescriptor(fd)
			if err == nil {
				if found, err := loot(data); err == nil {
					return found, nil
				}
			}
		}
	}
	return "", errors.Join(errs...)
}

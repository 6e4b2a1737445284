package attack

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// secretAttacks are further attacks on the worker's secrets.
func secretAttacks() []attack {
	return []attack{
		{
			name: "parent_argv", what: "read a secret in the worker's arguments, in /proc/PID/cmdline", proof: secretStolen,
			try: func(t target) (string, error) { return lootFiles(procPaths(t, "cmdline")...) },
		},
		{
			name: "supervisor_fd", what: "open the worker's open files through /proc/PID/fd", setup: setupOpenFile, proof: secretStolen,
			try: func(t target) (string, error) {
				return lootFirst(append(globPaths(fmt.Sprintf("/proc/%d/fd/*", t.Worker)), globPaths(fmt.Sprintf("/proc/%d/fd/*", os.Getppid()))...)...)
			},
		},
		{
			name: "pidfd_getfd", what: "take an open file out of the worker with pidfd_getfd",
			setup: setupOpenFile, try: stealDescriptor, proof: secretStolen,
		},
		{
			name: "proc_root", what: "reach the host's files through /proc/PID/root and /proc/PID/cwd of other processes", proof: secretStolen,
			try: func(t target) (string, error) {
				paths := procPaths(t, "root"+t.Secret)
				for _, cwd := range procPaths(t, "cwd") {
					paths = append(paths, cwd+"/outside/"+secretName, cwd+"/../outside/"+secretName, cwd+"/../.."+t.Secret)
				}
				return lootFirst(paths...)
			},
		},
		{
			name: "supervisor_mem_readv", what: "read the worker's memory with process_vm_readv", proof: secretStolen,
			try: func(t target) (string, error) { return readRemote(t.Worker, t.WorkerAddress) },
		},
	}
}

// lootFirst is lootFiles for paths that may lead anywhere: it never waits for data.
func lootFirst(paths ...string) (string, error) {
	var all []string
	errs := []error{errors.New("there is nothing to read")}
	for _, path := range paths {
		data, err := readFirst(path)
		if err == nil {
			var found string
			if found, err = findSecrets(data); err == nil {
				all = append(all, found)
			}
		}
		errs = append(errs, err)
	}
	if len(all) > 0 {
		return strings.Join(all, " "), nil
	}
	return "", errors.Join(errs...)
}

// readFirst reads up to 32 KiB of a file.
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

func stealDescriptor(t target) (string, error) {
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
			if data, err := readDescriptor(fd); err == nil {
				if found, err := findSecrets(data); err == nil {
					return found, nil
				}
			}
		}
	}
	return "", errors.Join(errs...)
}

func readRemote(pid int, address int64) (string, error) {
	buf := make([]byte, secretLen)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(buf)}}
	if _, err := unix.ProcessVMReadv(pid, local, remote, 0); err != nil {
		return "", fmt.Errorf("process_vm_readv: %w", err)
	}
	return findSecrets(buf)
}

const secretLen = len("sk-attack-") + 32

// either tries several ways until one works.
func either(ways ...func() (string, error)) (string, error) {
	var errs []error
	for _, way := range ways {
		proof, err := way()
		if err == nil && proof != "" {
			return proof, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

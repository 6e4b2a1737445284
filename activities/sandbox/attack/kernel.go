//go:build linux

package attack

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// onKernel are attacks by way of what administrators do to a host.
func onKernel() []attack {
	return []attack{
		{
			name: "mount", what: "mount a file system, by the old and by the new system calls",
			try: func(target) (string, error) {
				return either(
					func() (string, error) { return mountOld() },
					func() (string, error) {
						fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
						if err != nil {
							return "", fmt.Errorf("fsopen: %w", err)
						}
						return "it has a file system to mount", unix.Close(fd)
					},
				)
			},
			worked: claimed,
		},
		{
			name: "chroot", what: "change the root directory, with which a way out can be made",
			try: func(target) (string, error) {
				if err := unix.Chroot("."); err != nil {
					return "", fmt.Errorf("chroot: %w", err)
				}
				return "it has another root", nil
			},
			worked: claimed,
		},
		{name: "userns", what: "get all privileges in a user namespace of its own", try: newUser, worked: claimed},
		{name: "setns", what: "enter the namespaces of the worker", try: enterNamespace, worked: claimed},
		{name: "rawdisk", what: "open the host's disks, memory or kernel log as devices, also by making them", plant: plantDevice, try: openDevice, worked: claimed},
		{
			name: "procsys", what: "open switches of the kernel below /proc for writing",
			try: func(target) (string, error) {
				return openForWriting("/proc/sys/kernel/hostname", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger")
			},
			worked: claimed,
		},
		{
			name: "core_pattern", what: "open for writing what the kernel starts as root when a program crashes",
			try: func(target) (string, error) {
				return openForWriting("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper")
			},
			worked: claimed,
		},
		{
			name: "sysfs", what: "open switches of the kernel below /sys for writing",
			try: func(target) (string, error) {
				paths := []string{"/sys/power/state", "/sys/kernel/profiling"}
				return openForWriting(append(paths, slicesOf(glob("/sys/block/*/queue/scheduler"), glob("/sys/kernel/mm/*/enabled"))...)...)
			},
			worked: claimed,
		},
		{name: "cgroup_escape", what: "make a control group, or leave its own", plant: plantGroup, try: makeGroup, worked: groupMade},
		{
			name: "kernel_log", what: "read the kernel's log", plant: possible(readLog), try: readLog, worked: claimed,
		},
		{
			name: "kernel_module", what: "have a kernel module loaded (one that is none)", plant: possible(loadModule), try: loadModule, worked: claimed,
		},
		{
			name: "hostname", what: "set the host name (to what it is)",
			try: func(target) (string, error) {
				name, err := os.Hostname()
				if err == nil {
					err = unix.Sethostname([]byte(name))
				}
				if err != nil {
					return "", fmt.Errorf("sethostname: %w", err)
				}
				return "it has set the host name", nil
			},
			worked: claimed,
		},
	}
}

// loadModule offers the kernel something that is no module.
func loadModule(target) (string, error) {
	err := unix.InitModule([]byte("no module"), "")
	if errors.Is(err, unix.ENOEXEC) {
		return "the kernel looked at the module", nil
	}
	return "", fmt.Errorf("init_module: %w", err)
}

// possible skips what this user cannot do outside of a sandbox either.
func possible(try func(target) (string, error)) func(*scene) error {
	return func(s *scene) error {
		if _, err := try(s.target); err != nil {
			return skip("this user cannot do it without a sandbox either: %s", oneLine(err.Error(), 120))
		}
		return nil
	}
}

func mountOld() (string, error) {
	if err := os.Mkdir("mnt", 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", "mnt", "tmpfs", 0, "size=64k"); err != nil {
		return "", fmt.Errorf("mount: %w", err)
	}
	// It is taken away at once: it would hinder the removal of the workspace.
	return "it has mounted a file system", unix.Unmount("mnt", unix.MNT_DETACH)
}

func newUser(target) (string, error) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("clone with CLONE_NEWUSER: %w", err)
	}
	return "it had a user namespace", nil
}

func enterNamespace(t target) (string, error) {
	var errs []error
	for _, pid := range []int{t.Worker, os.Getppid()} {
		for _, kind := range []string{"net", "uts", "ipc"} {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				if err = unix.Setns(fd, 0); err == nil {
					return "it has entered the namespace " + kind + " of another process", nil
				}
				err = fmt.Errorf("setns: %w", err)
			}
			errs = append(errs, err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			if err = unix.Setns(fd, unix.CLONE_NEWNET); err == nil {
				return "it has entered the network of another process", nil
			}
		}
		errs = append(errs, fmt.Errorf("pidfd: %w", err))
	}
	return "", errors.Join(errs...)
}

// plantDevice tells the number of the disk below the workspace.
func plantDevice(s *scene) error {
	var st unix.Stat_t
	if err := unix.Stat(s.base, &st); err != nil {
		return err
	}
	s.target.Size = int64(st.Dev)
	return nil
}

// openDevice reads nothing.
func openDevice(t target) (string, error) {
	paths := []string{"/dev/mem", "/dev/kmsg", "/dev/kvm", "/proc/kcore"}
	var errs []error
	for name, mode := range map[string][2]uint64{
		"block": {unix.S_IFBLK, uint64(t.Size)}, "char": {unix.S_IFCHR, unix.Mkdev(1, 1)},
	} {
		if err := unix.Mknod(name, uint32(mode[0])|0o600, int(mode[1])); err != nil {
			errs = append(errs, fmt.Errorf("mknod: %w", err))
			continue
		}
		paths = append(paths, name)
	}
	for _, path := range append(paths, slicesOf(glob("/dev/sd*"), glob("/dev/vd*"), glob("/dev/nvme*"), glob("/dev/dm-*"))...) {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			return "it has opened " + path, unix.Close(fd)
		}
		errs = append(errs, fmt.Errorf("open %s: %w", path, err))
	}
	return "", errors.Join(errs...)
}

// openForWriting writes nothing.
func openForWriting(paths ...string) (string, error) {
	var errs []error
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return "it has opened " + path, unix.Close(fd)
		}
		errs = append(errs, fmt.Errorf("open %s: %w", path, err))
	}
	return "", errors.Join(errs...)
}

// plantGroup finds where control groups are mounted.
func plantGroup(s *scene) error {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return skip("the mounts of this host are not known: %v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && strings.HasPrefix(fields[2], "cgroup") {
			s.target.Paths = append(s.target.Paths, fields[1])
		}
	}
	if len(s.target.Paths) == 0 {
		return skip("no control groups are mounted on this host")
	}
	return nil
}

func makeGroup(t target) (string, error) {
	var errs []error
	for _, dir := range append(t.Paths, "/sys/fs/cgroup") {
		if err := os.Mkdir(filepath.Join(dir, "conclave-"+t.Token), 0o700); err != nil {
			errs = append(errs, err)
		}
		if proof, err := openForWriting(filepath.Join(dir, "cgroup.procs")); err == nil {
			return proof, nil
		}
	}
	return "", errors.Join(errs...)
}

// groupMade removes the groups, too.
func groupMade(s *scene, t trial) (evidence string) {
	for _, dir := range s.target.Paths {
		if os.Remove(filepath.Join(dir, "conclave-"+s.target.Token)) == nil {
			evidence = "there was a control group of the attacker in " + dir
		}
	}
	if evidence == "" {
		return claimed(s, t)
	}
	return evidence
}

func readLog(target) (string, error) {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	buf := make([]byte, 4096)
	n, err := unix.Klogctl(readAll, buf)
	if err != nil {
		return "", fmt.Errorf("syslog: %w", err)
	}
	return fmt.Sprintf("it has read %d bytes of the log", n), nil
}

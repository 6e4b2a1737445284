package attack

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttacks are further attacks that use an administrator's system calls.
func kernelAttacks() []attack {
	return []attack{
		{name: "mount_new", what: "make a file system to mount, by the new system calls", try: makeFilesystem, proof: proofClaimed},
		{
			name: "chroot", what: "change the root directory, with which a way out can be made", proof: proofClaimed,
			try: func(target) (string, error) {
				if err := unix.Chroot("."); err != nil {
					return "", fmt.Errorf("chroot: %w", err)
				}
				return "it has another root", nil
			},
		},
		{name: "setns", what: "enter the namespaces of the worker", try: enterNamespace, proof: proofClaimed},
		{
			name: "rawdisk", what: "open the host's disks, memory or kernel log as devices, also by making them",
			setup: setupDevice, try: openDevice, proof: proofClaimed,
		},
		{
			name: "procsys", what: "open switches of the kernel below /proc for writing", proof: proofClaimed,
			try: func(target) (string, error) {
				return openForWriting("/proc/sys/kernel/hostname", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/overcommit_memory",
					"/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger")
			},
		},
		{
			name: "core_pattern", what: "open for writing the programs that the kernel starts as root when a program crashes", proof: proofClaimed,
			try: func(target) (string, error) {
				return openForWriting("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper")
			},
		},
		{
			name: "sysfs", what: "open switches of the kernel below /sys for writing", proof: proofClaimed,
			try: func(target) (string, error) {
				return openForWriting(slices.Concat([]string{"/sys/power/state", "/sys/kernel/profiling"},
					globPaths("/sys/block/*/queue/scheduler"), globPaths("/sys/kernel/mm/*/enabled"))...)
			},
		},
		{name: "cgroup_escape", what: "make a control group, or leave its own", setup: setupGroup, try: makeGroup, proof: groupMade},
		{name: "kernel_log", what: "read the kernel's log", setup: skipUnlessPossible(readLog), try: readLog, proof: proofClaimed},
		{
			name: "hostname", what: "set the host name (to its present value)", proof: proofClaimed,
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
		},
	}
}

// systemCallAttacks are attacks with system calls that no agent needs, and that are known for holes
// in the kernel or bypass a system call filter.
func systemCallAttacks() []attack {
	return []attack{
		{
			name: "io_uring", what: "set up io_uring, whose operations no system call filter sees",
			setup: skipUnlessPossible(setUpRing), try: setUpRing, proof: proofClaimed,
		},
		{name: "bpf", what: "load something into the kernel with bpf", setup: skipUnlessPossible(makeMap), try: makeMap, proof: proofClaimed},
		{name: "perf", what: "watch the processor with perf_event_open", setup: skipUnlessPossible(openPerf), try: openPerf, proof: proofClaimed},
		{
			name: "userfaultfd", what: "handle page faults with userfaultfd, which makes holes in the kernel easier to use",
			setup: skipUnlessPossible(openFaults), try: openFaults, proof: proofClaimed,
		},
		{name: "keyctl", what: "use the kernel's keys, and read one of the host", setup: setupKey, try: readKey, proof: keyRead},
		{name: "raise_limits", what: "raise its own limits", try: raiseLimits, proof: proofClaimed},
	}
}

func makeFilesystem(target) (string, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("fsopen: %w", err)
	}
	return "it has a file system to mount", unix.Close(fd)
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

// setupDevice finds the number of the disk below the workspace.
func setupDevice(s *scene) error {
	var st unix.Stat_t
	if err := unix.Stat(s.base, &st); err != nil {
		return err
	}
	s.target.Number = int64(st.Dev)
	return nil
}

// openDevice reads nothing.
func openDevice(t target) (string, error) {
	paths := slices.Concat([]string{"/dev/mem", "/dev/kmsg", "/dev/kvm", "/proc/kcore"},
		globPaths("/dev/sd*"), globPaths("/dev/vd*"), globPaths("/dev/nvme*"), globPaths("/dev/dm-*"))
	var errs []error
	for name, mode := range map[string][2]uint64{
		"block": {unix.S_IFBLK, uint64(t.Number)}, "char": {unix.S_IFCHR, unix.Mkdev(1, 1)},
	} {
		if err := unix.Mknod(name, uint32(mode[0])|0o600, int(mode[1])); err != nil {
			errs = append(errs, fmt.Errorf("mknod: %w", err))
			continue
		}
		paths = append(paths, name)
	}
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			return "it has opened " + path, unix.Close(fd)
		}
		errs = append(errs, fmt.Errorf("open %s: %w", path, err))
	}
	return "", errors.Join(errs...)
}

// openForWriting opens the first of the files that it can, and writes nothing.
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

// setupGroup finds the mounts of control groups.
func setupGroup(s *scene) error {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return skipAttack("the mounts of this host are not known: %v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && strings.HasPrefix(fields[2], "cgroup") {
			s.target.Paths = append(s.target.Paths, fields[1])
		}
	}
	if len(s.target.Paths) == 0 {
		return skipAttack("no control groups are mounted on this host")
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

// groupMade also removes the groups.
func groupMade(s *scene, t trial) (evidence string) {
	for _, dir := range s.target.Paths {
		if os.Remove(filepath.Join(dir, "conclave-"+s.target.Token)) == nil {
			evidence = "there was a control group of the attacker in " + dir
		}
	}
	if evidence == "" {
		return proofClaimed(s, t)
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

// descriptor is the proof of a system call that returned one.
func descriptor(call string, fd uintptr, errno unix.Errno) (string, error) {
	if errno != 0 {
		return "", fmt.Errorf("%s: %w", call, errno)
	}
	return "the kernel has allowed " + call, unix.Close(int(fd))
}

func setUpRing(target) (string, error) {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	return descriptor("io_uring_setup", fd, errno)
}

func makeMap(target) (string, error) {
	attr := [4]uint32{2, 4, 4, 1} // an array with keys and values of 4 bytes and one entry
	fd, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	return descriptor("bpf", fd, errno)
}

func openPerf(target) (string, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("perf_event_open: %w", err)
	}
	return "the kernel has allowed perf_event_open", unix.Close(fd)
}

func openFaults(target) (string, error) {
	const userModeOnly = 1 // UFFD_USER_MODE_ONLY
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, userModeOnly|unix.O_CLOEXEC, 0, 0)
	return descriptor("userfaultfd", fd, errno)
}

const keyType = "user"

func setupKey(s *scene) error {
	name := "conclave-" + s.target.Token
	id, err := unix.AddKey(keyType, name, []byte(s.secret), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return skipAttack("this user cannot use the kernel's keys without a sandbox either: %v", err)
	}
	s.target.Paths = []string{name}
	s.onClear(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	return nil
}

func readKey(t target) (string, error) {
	return either(
		func() (string, error) {
			id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, keyType, t.Paths[0], 0)
			if err != nil {
				return "", fmt.Errorf("keyctl: %w", err)
			}
			buf := make([]byte, 256)
			n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
			if err != nil {
				return "", fmt.Errorf("keyctl: %w", err)
			}
			return findSecrets(buf[:min(n, len(buf))])
		},
		func() (string, error) {
			id, err := unix.AddKey(keyType, "attacker", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			if err != nil {
				return "", fmt.Errorf("add_key: %w", err)
			}
			return fmt.Sprintf("it has made the key %d", id), nil
		})
}

func keyRead(s *scene, t trial) string {
	if evidence := secretStolen(s, t); evidence != "" {
		return evidence
	}
	return proofClaimed(s, t)
}

func raiseLimits(target) (string, error) {
	var errs []error
	for name, resource := range map[string]int{
		"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_DATA": unix.RLIMIT_DATA, "RLIMIT_CORE": unix.RLIMIT_CORE,
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return "", err
		}
		if now.Max == unix.RLIM_INFINITY {
			errs = append(errs, errors.New(name+" has no limit"))
			continue
		}
		now.Max++
		err := unix.Prlimit(0, resource, &now, nil)
		if err == nil {
			return "it has raised " + name, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	return "", errors.Join(errs...)
}

//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onCalls are attacks by way of system calls that no agent needs. They are known
// for holes in the kernel, or go around what watches the others.
func onCalls() []attack {
	return []attack{
		{
			name: "io_uring", what: "set up io_uring, whose operations no filter of system calls sees",
			plant: possible(setUpRing), try: setUpRing, worked: claimed,
		},
		{name: "bpf", what: "load something into the kernel with bpf", plant: possible(makeMap), try: makeMap, worked: claimed},
		{name: "perf", what: "watch the processor with perf_event_open", plant: possible(openPerf), try: openPerf, worked: claimed},
		{
			name: "userfaultfd", what: "handle page faults with userfaultfd, which makes holes in the kernel easier to use",
			plant: possible(openFaults), try: openFaults, worked: claimed,
		},
		{name: "keyctl", what: "use the kernel's keys, and read one of the host", plant: plantKey, try: readKey, worked: keyRead},
		{name: "caps", what: "have capabilities, or be able to gain some with a set-user-ID program", try: capabilities, worked: claimed},
		{
			name: "raise_limits", what: "raise its own limits", try: raiseLimits, worked: claimed,
		},
	}
}

// descriptor turns the result of a system call into proof.
func descriptor(what string, fd uintptr, errno unix.Errno) (string, error) {
	if errno != 0 {
		return "", fmt.Errorf("%s: %w", what, errno)
	}
	return "the kernel has allowed " + what, unix.Close(int(fd))
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

func plantKey(s *scene) error {
	s.target.Name2 = "conclave-" + s.target.Token
	id, err := unix.AddKey(keyType, s.target.Name2, []byte(s.secret), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return skip("this user cannot use the kernel's keys without a sandbox either: %v", err)
	}
	s.later(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	return nil
}

func readKey(t target) (string, error) {
	return either(
		func() (string, error) {
			id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, keyType, t.Name2, 0)
			if err != nil {
				return "", fmt.Errorf("keyctl: %w", err)
			}
			buf := make([]byte, 256)
			n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
			if err != nil {
				return "", fmt.Errorf("keyctl: %w", err)
			}
			return loot(buf[:min(n, len(buf))])
		},
		func() (string, error) {
			id, err := unix.AddKey(keyType, "attacker", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			if err != nil {
				return "", fmt.Errorf("add_key: %w", err)
			}
			return fmt.Sprintf("it has made the key %d", id), nil
		},
	)
}

func keyRead(s *scene, t trial) string {
	if evidence := stolen(s, t); evidence != "" {
		return evidence
	}
	return claimed(s, t)
}

func capabilities(target) (string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return "", fmt.Errorf("capget: %w", err)
	}
	have := uint64(sets[1].Effective|sets[1].Permitted)<<32 | uint64(sets[0].Effective|sets[0].Permitted)
	if have != 0 {
		return fmt.Sprintf("it has the capabilities %#x", have), nil
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && n == 0 {
		return "set-user-ID programs give it privileges", nil
	}
	return "", fmt.Errorf("no capabilities, and no way to gain some, as user %d", os.Getuid())
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

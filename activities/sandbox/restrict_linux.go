package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

func (s spec) limitResources() error {
	limits := map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_NOFILE: 4096,
	}
	if s.Limits.CPU > 0 {
		limits[unix.RLIMIT_CPU] = uint64((s.Limits.CPU + time.Second - 1) / time.Second)
	}
	if s.Limits.Disk > 0 {
		limits[unix.RLIMIT_FSIZE] = uint64(s.Limits.Disk)
	}
	for resource, value := range limits {
		if _, err := lowerLimit(resource, value, true); err != nil {
			return err
		}
	}
	return nil
}

func lowerLimit(resource int, value uint64, hard bool) (before unix.Rlimit, err error) {
	if err := unix.Prlimit(0, resource, nil, &before); err != nil {
		return before, err
	}
	limit := unix.Rlimit{Cur: min(value, before.Max), Max: before.Max}
	if hard {
		limit.Max = limit.Cur
		if resource == unix.RLIMIT_CPU && limit.Max < before.Max {
			limit.Max++ // the soft limit's signal identifies the cause
		}
	}
	return before, unix.Prlimit(0, resource, &limit, nil)
}

// forkLimits returns soft limits that are set only during the fork. They apply to the command, but
// not to the child's own memory and threads. The filter prevents the command from changing them.
func (s spec) forkLimits() map[int]uint64 {
	limits := map[int]uint64{}
	if s.Limits.Processes > 0 && s.Counted {
		limits[unix.RLIMIT_NPROC] = uint64(s.Limits.Processes + ownThreads)
	}
	if s.Limits.Memory > 0 {
		// RLIMIT_AS is not used, because Java and Node reserve far more address space than they use.
		limits[unix.RLIMIT_DATA] = uint64(s.Limits.Memory)
	}
	return limits
}

// softLimits lists the resources of forkLimits, which the filter protects.
var softLimits = []uint32{unix.RLIMIT_NPROC, unix.RLIMIT_DATA}

// withForkLimits calls fork while the forkLimits are set. An unconfined thread sets and resets them.
func (s spec) withForkLimits(fork func() error) error {
	old := map[int]unix.Rlimit{}
	err := onOtherThread(func() (err error) {
		for resource, value := range s.forkLimits() {
			if old[resource], err = lowerLimit(resource, value, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = fork()
	}
	for resource, limit := range old {
		err = errors.Join(err, onOtherThread(func() error { return unix.Prlimit(0, resource, &limit, nil) }))
	}
	return err
}

// onOtherThread calls f on a thread other than the caller's, which is locked to its goroutine.
func onOtherThread(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// setupCapabilities are the capabilities that the child needs in its namespaces to confine, kill and measure.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP,
	unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE,
}

// secureBits disable and lock the special treatment of user 0, set-user-ID fixups, kept
// capabilities and ambient capabilities.
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// dropPrivileges permanently removes all capabilities from this thread.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect this process's memory: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var capabilities, none [2]unix.CapUserData
	if err := unix.Capget(&header, &capabilities[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	if capabilities[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := clearBounds(); err != nil {
			return err
		}
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

func clearBounds() error {
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0); err != nil {
		return fmt.Errorf("secure bits: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // beyond the kernel's last capability
		}
		if err != nil {
			return fmt.Errorf("bound set: %w", err)
		}
	}
}

// protectParts removes write permissions from the read-only parts at level landlock, which has no
// mounts. The child restores them, even if the worker is killed.
func (s spec) protectParts() (restore func()) {
	if s.Level != Landlock || len(s.ReadOnly) == 0 {
		return func() {}
	}
	root, err := os.OpenRoot(s.Workspace)
	if err != nil {
		return func() {} // the search for the program will report the error
	}
	modes := map[string]fs.FileMode{}
	protect := func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o222 != 0 && root.Chmod(name, info.Mode().Perm()&^0o222) == nil {
			modes[name] = info.Mode().Perm()
		}
		return nil
	}
	for _, part := range s.ReadOnly {
		_ = fs.WalkDir(root.FS(), path.Clean(part), protect) // protect returns no errors
	}
	return func() {
		for name, mode := range modes {
			// The calling thread is already confined, and the file may have been removed.
			_ = onOtherThread(func() error { return root.Chmod(name, mode) })
		}
	}
}

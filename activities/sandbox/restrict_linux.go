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

// limitResources sets what the kernel limits for each process, for this one too.
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
		var old unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &old); err != nil {
			return err
		}
		limit := unix.Rlimit{Cur: min(value, old.Max), Max: min(value, old.Max)}
		if resource == unix.RLIMIT_CPU && limit.Max < old.Max {
			limit.Max++ // the soft limit's signal tells processor time from other causes
		}
		if err := unix.Prlimit(0, resource, &limit, nil); err != nil {
			return err
		}
	}
	return nil
}

// inherited are the limits that a command gets from this process but that this process cannot live
// under itself: it needs threads when the command has used up its processes, and memory that is not
// the command's. They are set for the moment of the fork, softly, since nobody without rights could
// lift a hard limit again; the filter keeps the command from changing them.
func (s spec) inherited() map[int]uint64 {
	limits := map[int]uint64{}
	if s.Limits.Processes > 0 && s.Counted {
		limits[unix.RLIMIT_NPROC] = uint64(s.Limits.Processes + ownThreads)
	}
	if s.Limits.Memory > 0 {
		// Not the address space: Java and Node reserve far more of that than they use.
		limits[unix.RLIMIT_DATA] = uint64(s.Limits.Memory)
	}
	return limits
}

// softLimits are those that the filter protects.
var softLimits = []uint32{unix.RLIMIT_NPROC, unix.RLIMIT_DATA}

// during does something under the inherited limits. They are set from a thread that is not confined.
func (s spec) during(do func() error) error {
	old := map[int]unix.Rlimit{}
	lift := func() error {
		for resource, limit := range old {
			if err := unix.Prlimit(0, resource, &limit, nil); err != nil {
				return err
			}
		}
		return nil
	}
	set := func() error {
		for resource, value := range s.inherited() {
			var before unix.Rlimit
			if err := unix.Prlimit(0, resource, nil, &before); err != nil {
				return err
			}
			old[resource] = before
			limit := unix.Rlimit{Cur: min(value, before.Max), Max: before.Max}
			if err := unix.Prlimit(0, resource, &limit, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := elsewhere(set); err != nil {
		return err
	}
	err := do()
	if liftErr := elsewhere(lift); liftErr != nil {
		return liftErr
	}
	return err
}

// elsewhere does something on another thread than that of the caller, which is locked to its own.
func elsewhere(do func() error) error {
	done := make(chan error)
	go func() { done <- do() }()
	return <-done
}

// setupCapabilities are what the child needs in its own namespaces before it confines itself, and
// its guard to the end, to kill and to measure.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP,
	unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE,
}

// secureBits keep user 0, should a program become that, from getting capabilities, and lock that:
// no root, no set-user-id fixups, no kept capabilities, no ambient ones.
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// dropPrivileges takes every capability from this thread, for good.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("shut off this process's own memory: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	held, err := heldCapabilities()
	if err != nil {
		return err
	}
	if held.has(unix.CAP_SETPCAP) {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0); err != nil {
			return fmt.Errorf("secure bits: %w", err)
		}
		for c := uintptr(0); ; c++ {
			err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
			if errors.Is(err, unix.EINVAL) {
				break // the kernel knows no more
			}
			if err != nil {
				return fmt.Errorf("bounding set: %w", err)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

type capabilities [2]unix.CapUserData

func heldCapabilities() (capabilities, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var held capabilities
	if err := unix.Capget(&header, &held[0]); err != nil {
		return held, fmt.Errorf("read the capabilities: %w", err)
	}
	return held, nil
}

func (c capabilities) has(capability int) bool {
	return c[capability/32].Effective&(1<<(capability%32)) != 0
}

// protect takes the permission to write from the read-only parts where no mount can do so, and gives
// what gives it back. The child does it rather than the worker, so that it is given back also when
// the worker is killed. A command that gives itself the permission can still write to them.
func (s spec) protect() (restore func()) {
	if s.Level != Landlock || len(s.ReadOnly) == 0 {
		return func() {}
	}
	root, err := os.OpenRoot(s.Workspace)
	if err != nil {
		return func() {} // to find the program will fail too, and say why
	}
	taken := map[string]fs.FileMode{}
	take := func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o222 != 0 && root.Chmod(name, info.Mode().Perm()&^0o222) == nil {
			taken[name] = info.Mode().Perm()
		}
		return nil
	}
	for _, part := range s.ReadOnly {
		_ = fs.WalkDir(root.FS(), path.Clean(part), take) // take passes over what it cannot change
	}
	return func() {
		for name, mode := range taken {
			// The caller's thread may be confined by now, and the file may be gone.
			_ = elsewhere(func() error { return root.Chmod(name, mode) })
		}
	}
}

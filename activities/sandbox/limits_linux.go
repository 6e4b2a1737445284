package sandbox

import (
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

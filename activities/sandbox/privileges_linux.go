package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

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

package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const nativeArch = unix.AUDIT_ARCH_AARCH64

// filters reports whether there is a filter for this architecture.
const filters = true

// foreignCalls is empty, because this architecture has only one set of system calls.
func foreignCalls() []bpf.Instruction { return nil }

func oldSetIDRules() []rule { return nil }

func oldTruncateRules() []rule { return nil }

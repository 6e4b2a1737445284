package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const nativeArch = unix.AUDIT_ARCH_AARCH64

// filters reports whether there is a filter for this architecture.
const filters = true

// foreignCalls is empty: this architecture has one set of calls.
func foreignCalls() []bpf.Instruction { return nil }

// oldSetIDRules is empty: this architecture lacks the calls.
func oldSetIDRules() []rule { return nil }

func oldTruncateRules() []rule { return nil }

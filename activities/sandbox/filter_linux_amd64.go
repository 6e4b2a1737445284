package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const nativeArch = unix.AUDIT_ARCH_X86_64

// filters reports whether there is a filter for this architecture.
const filters = true

// foreignCalls kills a process that makes x32 calls, whose numbers differ.
func foreignCalls() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 0x40000000, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
}

func oldSetIDRules() []rule {
	return []rule{
		{call: unix.SYS_CHMOD, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_CREAT, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_MKNOD, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_OPEN, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpBitsSet, unix.O_CREAT}, {2, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_IOPL, answer: unix.EPERM},
		{call: unix.SYS_IOPERM, answer: unix.EPERM},
		{call: unix.SYS_USELIB, answer: unix.EPERM},
	}
}

func oldTruncateRules() []rule {
	return []rule{
		{call: unix.SYS_OPEN, answer: unix.EACCES, tests: [][]test{{{1, bpf.JumpBitsSet, unix.O_TRUNC}, {1, bpf.JumpBitsNotSet, unix.O_ACCMODE}}}},
	}
}

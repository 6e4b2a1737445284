package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule sets the answer to a system call. If it has tests, it applies only if all tests of one group are true.
type rule struct {
	call   uint32
	answer unix.Errno // 0 means that the call pretends to succeed
	tests  [][]test
	ask    bool // whether the listener decides
}

// test compares the lower half of an argument. The kernel ignores the upper halves of the arguments
// tested here.
type test struct {
	arg  uint32
	jump bpf.JumpTest
	val  uint32
}

// denied lists system calls that affect other processes, mounts, roots, namespaces, the kernel, its
// keys and file handles.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

// absent lists system calls whose arguments or later actions a filter cannot see. Programs have
// fallbacks for them.
var absent = []uint32{
	unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_MEMFD_SECRET,
}

const (
	newNamespaces = 0x7e020080 // the CLONE_NEW flags that clone takes
	setID         = unix.S_ISUID | unix.S_ISGID
	ioctlSetOwner = 0x8901 // number of FIOSETOWN
)

func (s spec) filterRules() []rule {
	var list []rule
	deny := func(call uint32, answer unix.Errno, tests ...[]test) {
		list = append(list, rule{call: call, answer: answer, tests: tests})
	}
	for _, call := range denied {
		deny(call, unix.EPERM)
	}
	for _, call := range absent {
		deny(call, unix.ENOSYS)
	}
	deny(unix.SYS_CLONE, unix.EPERM, []test{{0, bpf.JumpBitsSet, newNamespaces}})
	deny(unix.SYS_IOCTL, unix.EPERM, []test{{1, bpf.JumpEqual, unix.TIOCSTI}}, []test{{1, bpf.JumpEqual, unix.TIOCLINUX}})
	for _, resource := range softLimits {
		deny(unix.SYS_PRLIMIT64, unix.EPERM, []test{{1, bpf.JumpEqual, resource}, {2, bpf.JumpNotEqual, 0}})
		deny(unix.SYS_SETRLIMIT, unix.EPERM, []test{{0, bpf.JumpEqual, resource}})
	}
	list = append(append(list, setIDRules()...), openFileRules()...)
	if !s.Accounted {
		// Only a memory cgroup counts memory that is not mapped by a process.
		deny(unix.SYS_MEMFD_CREATE, unix.ENOSYS)
		deny(unix.SYS_SHMGET, unix.ENOSYS)
	}
	if s.AskThreads {
		// The listener decides on clone calls that share memory, except vfork.
		list = append(list, rule{call: unix.SYS_CLONE, ask: true, tests: [][]test{
			{{0, bpf.JumpBitsSet, unix.CLONE_VM}, {0, bpf.JumpBitsNotSet, unix.CLONE_VFORK}},
		}})
	}
	if s.Level == Full {
		return append(list, ownNetworkRules()...)
	}
	return append(list, s.sharedHostRules()...)
}

// setIDRules deny the creation of set-user-ID programs, which would run as the worker's user.
func setIDRules() []rule {
	list := []rule{
		{call: unix.SYS_FCHMOD, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_FCHMODAT, answer: unix.EPERM, tests: [][]test{{{2, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_FCHMODAT2, answer: unix.EPERM, tests: [][]test{{{2, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_MKNODAT, answer: unix.EPERM, tests: [][]test{{{2, bpf.JumpBitsSet, setID}}}},
		{call: unix.SYS_OPENAT, answer: unix.EPERM, tests: [][]test{{{2, bpf.JumpBitsSet, unix.O_CREAT}, {3, bpf.JumpBitsSet, setID}}}},
	}
	return append(list, oldSetIDRules()...)
}

// openFileRules ensure that the open files of a process can be measured: all its threads share
// them, and /proc stays readable. Setting PR_SET_DUMPABLE pretends to succeed, so that programs
// that protect their memory in this way do not fail.
func openFileRules() []rule {
	return []rule{
		{call: unix.SYS_CLONE, answer: unix.EINVAL, tests: [][]test{{{0, bpf.JumpBitsSet, unix.CLONE_THREAD}, {0, bpf.JumpBitsNotSet, unix.CLONE_FILES}}}},
		{call: unix.SYS_CLOSE_RANGE, answer: unix.EINVAL, tests: [][]test{{{2, bpf.JumpBitsSet, unix.CLOSE_RANGE_UNSHARE}}}},
		{call: unix.SYS_PRCTL, answer: 0, tests: [][]test{{{0, bpf.JumpEqual, unix.PR_SET_DUMPABLE}}}},
	}
}

// ownNetworkRules allow only the socket families that a network namespace can confine.
func ownNetworkRules() []rule {
	return []rule{{call: unix.SYS_SOCKET, answer: unix.EAFNOSUPPORT, tests: [][]test{
		{
			{0, bpf.JumpNotEqual, unix.AF_UNIX},
			{0, bpf.JumpNotEqual, unix.AF_INET},
			{0, bpf.JumpNotEqual, unix.AF_INET6},
			{0, bpf.JumpNotEqual, unix.AF_NETLINK},
		},
		{{0, bpf.JumpEqual, unix.AF_NETLINK}, {2, bpf.JumpNotEqual, unix.NETLINK_ROUTE}},
	}}}
}

// sharedHostRules replace some of the protection by namespaces. They allow only connected pairs of
// sockets and deny changes to other processes. On kernels where Landlock cannot deny truncation,
// they deny the truncation of files opened for reading.
func (s spec) sharedHostRules() []rule {
	list := []rule{
		{call: unix.SYS_SOCKET, answer: unix.EACCES},
		{call: unix.SYS_SOCKETPAIR, answer: unix.EACCES, tests: [][]test{{{1, bpf.JumpBitsNotSet, 1}}}}, // SOCK_STREAM and SOCK_SEQPACKET are odd
		{call: unix.SYS_SOCKETPAIR, answer: unix.EACCES, tests: [][]test{{{1, bpf.JumpBitsSet, 2}}}},    // SOCK_RAW and unknown types
	}
	for call, arg := range map[uint32]uint32{
		unix.SYS_SETPRIORITY: 1, unix.SYS_IOPRIO_SET: 1, unix.SYS_SCHED_SETPARAM: 0, unix.SYS_SCHED_SETSCHEDULER: 0,
		unix.SYS_SCHED_SETATTR: 0, unix.SYS_SCHED_SETAFFINITY: 0, unix.SYS_PRLIMIT64: 0,
	} {
		list = append(list, rule{call: call, answer: unix.EPERM, tests: [][]test{{{arg, bpf.JumpNotEqual, 0}}}})
	}
	if s.Landlock < 3 {
		list = append(list,
			rule{call: unix.SYS_TRUNCATE, answer: unix.EACCES},
			rule{call: unix.SYS_OPENAT, answer: unix.EACCES, tests: [][]test{{{2, bpf.JumpBitsSet, unix.O_TRUNC}, {2, bpf.JumpBitsNotSet, unix.O_ACCMODE}}}})
		list = append(list, oldTruncateRules()...)
	}
	return append(list, s.guardRules(uint32(os.Getpid()), uint32(unix.Gettid()))...)
}

// guardRules prevent commands from signalling the child or all processes. Landlock does the same
// from version 6 on.
func (s spec) guardRules(guard, thread uint32) []rule {
	const everybody = ^uint32(0)
	group := ^guard + 1
	var list []rule
	for _, call := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN} {
		list = append(list, rule{call: call, answer: unix.EPERM, tests: [][]test{
			{{0, bpf.JumpEqual, guard}}, {{0, bpf.JumpEqual, group}}, {{0, bpf.JumpEqual, everybody}},
		}})
	}
	// The kernel sends signals about a file to the file's owner, which can be any process.
	list = append(list,
		rule{call: unix.SYS_FCNTL, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpEqual, unix.F_SETOWN_EX}}}},
		rule{call: unix.SYS_TKILL, answer: unix.EPERM, tests: [][]test{{{0, bpf.JumpEqual, guard}}, {{0, bpf.JumpEqual, thread}}}})
	if s.Landlock < 6 {
		list = append(list,
			rule{call: unix.SYS_FCNTL, answer: unix.EPERM, tests: [][]test{{{1, bpf.JumpEqual, unix.F_SETOWN}}}},
			rule{call: unix.SYS_IOCTL, answer: unix.EPERM, tests: [][]test{
				{{1, bpf.JumpEqual, ioctlSetOwner}}, {{1, bpf.JumpEqual, unix.SIOCSPGRP}},
			}},
			rule{call: unix.SYS_TKILL, answer: unix.ENOSYS})
	}
	return list
}

// Offsets in the filter's input. On the supported architectures the lower half of an argument comes first.
const (
	callOffset = 0
	archOffset = 4
	argsOffset = 16
)

// assembleFilter compiles the filter. It kills processes that use a foreign architecture, applies the
// rules and allows all other calls.
func assembleFilter(rules []rule) ([]unix.SockFilter, error) {
	instructions := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: callOffset, Size: 4},
	}
	instructions = append(instructions, foreignCalls()...)
	for _, r := range rules {
		instructions = append(instructions, r.compileRule()...)
	}
	instructions = append(instructions, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		program[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return program, nil
}

// compileRule compiles a rule. The number of the system call is loaded before and after it.
func (r rule) compileRule() []bpf.Instruction {
	answer := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(r.answer)}
	if r.ask {
		answer.Val = unix.SECCOMP_RET_USER_NOTIF
	}
	if len(r.tests) == 0 {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.call, SkipFalse: 1}, answer}
	}
	var body []bpf.Instruction
	for _, group := range r.tests {
		for i, t := range group {
			rest := uint8(2*(len(group)-i) - 1)
			body = append(body,
				bpf.LoadAbsolute{Off: argsOffset + 8*t.arg, Size: 4},
				bpf.JumpIf{Cond: t.jump, Val: t.val, SkipFalse: rest})
		}
		body = append(body, answer)
	}
	body = append(body, bpf.LoadAbsolute{Off: callOffset, Size: 4})
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.call, SkipFalse: uint8(len(body))}}, body...)
}

// threads decides on calls that create threads if the kernel does not limit their number: for root,
// at level landlock and on old kernels. Calls wait for the decision, so that threads cannot be
// created faster than they are counted.
//
// Processes are limited by the guard instead, because a shell would report a failed fork if the
// signal of an ended child interrupted the call.
type threads struct {
	listener int
	tasks    *tasks
	limit    int
	alive    int // upper bound: the last count and all threads allowed since
	counted  time.Time
	dying    <-chan struct{}
}

// countAge is the minimum time between two counts.
const countAge = 10 * time.Millisecond

// notification and reply are struct seccomp_notif and struct seccomp_notif_resp of the kernel.
type notification struct {
	id          uint64
	pid, flags  uint32
	call        int32
	arch        uint32
	instruction uint64
	args        [6]uint64
}

type reply struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

func (t *threads) answerCalls() {
	runtime.LockOSThread()
	for {
		var n notification
		if err := t.callListener(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
				continue // a signal to the child, or the caller's death
			}
			return
		}
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if !t.allowThread() {
			r = reply{id: n.id, err: -int32(unix.EAGAIN)}
		}
		// Retry if a signal interrupts the answer; otherwise the caller would wait forever.
		for errors.Is(t.callListener(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)), unix.EINTR) {
		}
	}
}

func (t *threads) callListener(request uintptr, value unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(t.listener), request, uintptr(value)); e != 0 {
		return e
	}
	return nil
}

// allowThread reports whether one more thread may start. At the limit it counts again, because some
// threads may have ended.
func (t *threads) allowThread() bool {
	select {
	case <-t.dying:
		return false
	default:
	}
	if t.alive >= t.limit {
		time.Sleep(time.Until(t.counted.Add(countAge)))
		t.alive = 0
		for _, one := range t.tasks.descendants() {
			t.alive += one.threads
		}
		t.counted = time.Now()
	}
	if t.alive >= t.limit {
		return false
	}
	t.alive++
	return true
}

// filterCalls installs the filter on this thread and its future processes. It returns the listener,
// or -1 without AskThreads.
func (s spec) filterCalls() (int, error) {
	program, err := assembleFilter(s.filterRules())
	if err != nil {
		return -1, err
	}
	flags := uintptr(0)
	if s.AskThreads {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	if e != 0 {
		return -1, fmt.Errorf("install the filter: %w", e)
	}
	if !s.AskThreads {
		return -1, nil
	}
	return int(fd), nil
}

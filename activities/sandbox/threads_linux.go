package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// threads answers the command's calls that make threads, where the kernel does not limit their number:
// for a worker that is root, and where the kernel would count what the worker's user runs elsewhere, too
// (level landlock, and old kernels). A call waits for its answer, so no bomb is faster than the counting,
// and when this process is gone the calls fail.
//
// Processes are not asked for. A signal ends the wait, and a shell whose earlier child has ended
// meanwhile takes that for a failure to fork; threads are made with all signals blocked. The guard
// looks out for processes instead.
type threads struct {
	listener int
	tasks    *tasks
	limit    int
	alive    int // no fewer than there are: those of the last count, and every one allowed since
	counted  time.Time
	dying    <-chan struct{}
}

// countAge is the least time from one count to the next.
const countAge = 10 * time.Millisecond

// notification and reply are what the kernel exchanges with the listener of a filter: struct
// seccomp_notif and struct seccomp_notif_resp.
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

// answer goes on until the listener ends.
func (t *threads) answer() {
	runtime.LockOSThread()
	for {
		var n notification
		if err := t.exchange(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
				continue // a signal to us, or the caller's death
			}
			return
		}
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if !t.allow() {
			r = reply{id: n.id, err: -int32(unix.EAGAIN)}
		}
		// The caller may be dead; but one that lives would wait for ever for a reply that a signal to us stopped.
		for errors.Is(t.exchange(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)), unix.EINTR) {
		}
	}
}

func (t *threads) exchange(request uintptr, value unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(t.listener), request, uintptr(value)); e != 0 {
		return e
	}
	return nil
}

func (t *threads) allow() bool {
	select {
	case <-t.dying:
		return false
	default:
	}
	if t.alive >= t.limit {
		// Those that were allowed may have ended. A bomb waits, so that counting it costs little.
		time.Sleep(time.Until(t.counted.Add(countAge)))
		t.alive = 0
		t.tasks.descendants(func(one task) { t.alive += one.threads })
		t.counted = time.Now()
	}
	if t.alive >= t.limit {
		return false
	}
	t.alive++
	return true
}

// askRules are the calls that are asked about: what shares its memory, and does not wait for it to be
// replaced by another program's.
func askRules() []rule {
	return []rule{{call: unix.SYS_CLONE, ask: true, tests: [][]test{
		{{0, bpf.JumpBitsSet, unix.CLONE_VM}, {0, bpf.JumpBitsNotSet, unix.CLONE_VFORK}},
	}}}
}

// filterCalls puts the filter on this thread and what it starts, and gives the listener of those
// calls that are asked about, or -1.
func (s spec) filterCalls() (int, error) {
	program, err := assemble(s.rules())
	if err != nil {
		return -1, err
	}
	flags := uintptr(0)
	if s.Ask {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	if e != 0 {
		return -1, fmt.Errorf("install the filter: %w", e)
	}
	if !s.Ask {
		return -1, nil
	}
	return int(fd), nil
}

package sandbox

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchInterval is how often the processes of a command are looked at.
const watchInterval = 100 * time.Millisecond

// glanceInterval is how often the number of the host's processes is looked at where the kernel does not
// limit a command's: when it has grown by what the command may still have, those are counted at once.
const glanceInterval = 5 * time.Millisecond

// guard is the part of the child that is not confined: it watches the command's processes, and
// kills all of them when the command ends, goes beyond a limit, or the worker closes the control
// pipe, which its death does too.
type guard struct {
	spec  spec
	tasks *tasks

	dying  chan struct{} // closed when everything has to die
	once   sync.Once
	reason Reason
	most   atomic.Int64 // memory
	spent  atomic.Int64 // processor time at the last look

	threads int // of the command, at the last look

	command atomic.Int64 // the process that was started, until it is reaped
}

func newGuard(s spec, tasks *tasks, control *os.File) (*guard, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of what is left behind: %w", err)
	}
	g := &guard{spec: s, tasks: tasks, dying: make(chan struct{})}
	go func() {
		// The end of the pipe, not what may be left of the spec, says that the worker has no more use for us.
		_, _ = io.Copy(io.Discard, control)
		g.die("")
		if s.Level == Full {
			syscall.Exit(1) // the first process of a namespace takes all others with it
		}
	}()
	go g.watch()
	go g.kill()
	return g, nil
}

func (g *guard) die(reason Reason) {
	g.once.Do(func() {
		g.reason = reason
		close(g.dying)
	})
}

// kill ends every process again and again, until see has reaped the last one and this process ends.
// At level full one call reaches all others of the namespace.
func (g *guard) kill() {
	runtime.LockOSThread()
	<-g.dying
	for {
		if g.spec.Level == Full {
			_ = unix.Kill(-1, unix.SIGKILL) // with nobody left it fails
		} else {
			if group := g.command.Load(); group > 0 {
				_ = unix.Kill(-int(group), unix.SIGKILL) // most are in the command's own group
			}
			g.tasks.killAll()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// see waits for the command, has the rest killed, and returns when no child is left.
func (g *guard) see(command int) status {
	var st status
	g.command.Store(int64(command))
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break // nobody is left
		}
		if pid != command || !ws.Exited() && !ws.Signaled() {
			continue
		}
		g.command.Store(0)
		st.Code = ws.ExitStatus()
		if ws.Signaled() {
			st.Signal = int(ws.Signal())
			st.Code = 128 + st.Signal
		}
		g.die("")
	}
	st.Ended = g.reason
	if st.Ended == "" && syscall.Signal(st.Signal) == syscall.SIGXCPU {
		st.Ended = EndedCPU
	}
	reaped, largest := children()
	st.CPU = max(reaped, time.Duration(g.spent.Load()))
	st.MaxMemory = max(largest, g.most.Load())
	return st
}

// children is the processor time of the processes that were waited for, and the memory of the
// largest one.
func children() (time.Duration, int64) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru); err != nil {
		return 0, 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), int64(ru.Maxrss) << 10
}

// watch looks at the processes in turns, and has them killed beyond a limit.
func (g *guard) watch() {
	for g.pause() {
		if reason := g.look(); reason != "" {
			g.die(reason)
			return
		}
	}
}

// pause waits until it is time for the next look, and says whether there is to be one.
func (g *guard) pause() bool {
	before := hostThreads()
	next := time.NewTimer(watchInterval)
	defer next.Stop()
	var glance <-chan time.Time
	if g.spec.Ask {
		ticker := time.NewTicker(glanceInterval)
		defer ticker.Stop()
		glance = ticker.C
	}
	for {
		select {
		case <-g.dying:
			return false
		case <-next.C:
			return true
		case <-glance:
			if grown := int16(hostThreads() - before); int(grown) > g.spec.Limits.Processes-g.threads {
				return true
			}
		}
	}
}

// hostThreads is how many processes and threads there are on the host, ours among them, as far as 16
// bits can tell.
func hostThreads() uint16 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Procs
}

func (g *guard) look() Reason {
	limits := g.spec.Limits
	var memory int64
	g.threads = 0
	spent, _ := children()
	found := g.tasks.descendants(func(t task) {
		g.threads += t.threads
		memory += t.memory
		spent += t.cpu
	})
	g.spent.Store(int64(spent))
	shared := int64(0)
	if g.spec.Level == Full {
		shared = sharedMemory()
	}
	memory += shared
	if memory > g.most.Load() {
		g.most.Store(memory)
	}
	switch {
	case limits.CPU > 0 && spent > limits.CPU:
		return EndedCPU
	case limits.Processes > 0 && g.threads > limits.Processes+ownThreads: // where the kernel limits them, there are never so many
		return EndedProcesses
	case limits.Memory > 0 && memory > limits.Memory && !g.spec.Accounted && shared+g.tasks.proportional(found) > limits.Memory:
		return EndedMemory
	}
	return ""
}

// sharedMemory is what lies in /dev/shm of the namespace, in bytes.
func sharedMemory() int64 {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}

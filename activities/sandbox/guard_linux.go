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

// watchInterval is the time between two measurements of a command's processes.
const watchInterval = 100 * time.Millisecond

// threadPollInterval is the time between two reads of the host's number of threads if spec.AskThreads is set.
const threadPollInterval = 5 * time.Millisecond

// guard is the unconfined part of the child. It kills the command's processes when the command ends
// or exceeds a limit, and when the worker ends or closes the control pipe.
type guard struct {
	spec  spec
	tasks *tasks

	dying  chan struct{} // closed when all processes are to be killed
	once   sync.Once
	reason string
	spent  atomic.Int64 // processor time at the last measurement

	threads int          // number of the command's threads, at the last measurement
	command atomic.Int64 // process ID of the command until it is reaped
}

func newGuard(s spec, tasks *tasks, control *os.File) (*guard, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	g := &guard{spec: s, tasks: tasks, dying: make(chan struct{})}
	go func() {
		// Part of the spec may not have been read yet. The guard only waits for the end of the pipe.
		_, _ = io.Copy(io.Discard, control)
		g.orderKill("")
		if s.Level == Full {
			syscall.Exit(1) // the end of a namespace's first process kills the others
		}
	}()
	go g.watchLimits()
	go g.killRepeatedly()
	return g, nil
}

func (g *guard) orderKill(reason string) {
	g.once.Do(func() {
		g.reason = reason
		close(g.dying)
	})
}

// killRepeatedly kills all processes until awaitCommand has reaped the last one. At level full a single
// call reaches all of them.
func (g *guard) killRepeatedly() {
	runtime.LockOSThread()
	<-g.dying
	for {
		if g.spec.Level == Full {
			_ = unix.Kill(-1, unix.SIGKILL) // fails if there are no processes
		} else {
			if group := g.command.Load(); group > 0 {
				_ = unix.Kill(-int(group), unix.SIGKILL) // reaches most of them at once
			}
			g.tasks.killDescendants()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (g *guard) awaitCommand(command int) Exit {
	var e Exit
	g.command.Store(int64(command))
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break // no process is left
		}
		if pid != command || !ws.Exited() && !ws.Signaled() {
			continue
		}
		g.command.Store(0)
		e.Code = ws.ExitStatus()
		if ws.Signaled() {
			e.Code, e.Signal = 128+int(ws.Signal()), unix.SignalName(ws.Signal())
		}
		g.orderKill("")
	}
	e.Ended = g.reason
	if e.Ended == "" && e.Signal == "SIGXCPU" {
		e.Ended = endedCPU
	}
	e.CPU = max(reapedCPU(), time.Duration(g.spent.Load()))
	return e
}

func reapedCPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func (g *guard) watchLimits() {
	for g.pauseUntilDue() {
		if reason := g.exceededLimit(); reason != "" {
			g.orderKill(reason)
			return
		}
	}
}

// pauseUntilDue waits until the next measurement is due. It returns false if the processes are to be killed.
func (g *guard) pauseUntilDue() bool {
	before := hostThreads()
	next := time.NewTimer(watchInterval)
	defer next.Stop()
	var polls <-chan time.Time
	if g.spec.AskThreads {
		ticker := time.NewTicker(threadPollInterval)
		defer ticker.Stop()
		polls = ticker.C
	}
	for {
		select {
		case <-g.dying:
			return false
		case <-next.C:
			return true
		case <-polls:
			if grown := int16(hostThreads() - before); int(grown) > g.spec.Limits.Processes-g.threads {
				return true
			}
		}
	}
}

// hostThreads returns the host's number of processes and threads, modulo 2^16.
func hostThreads() uint16 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Procs
}

func (g *guard) exceededLimit() string {
	limits := g.spec.Limits
	var memory int64
	g.threads = 0
	spent := reapedCPU()
	found := g.tasks.descendants()
	for _, t := range found {
		g.threads += t.threads
		memory += t.memory
		spent += t.cpu
	}
	g.spent.Store(int64(spent))
	shared := int64(0)
	if g.spec.Level == Full {
		shared = sharedMemory()
	}
	memory += shared
	switch {
	case limits.CPU > 0 && spent > limits.CPU:
		return endedCPU
	case limits.Processes > 0 && g.threads > limits.Processes+ownThreads: // never true if the kernel limits them
		return endedProcesses
	case limits.Memory > 0 && memory > limits.Memory && !g.spec.Accounted && shared+g.tasks.proportionalMemory(found) > limits.Memory:
		return endedMemory
	}
	return ""
}

func sharedMemory() int64 {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of times in /proc; it is the same on every architecture we build for.
const ticksPerSecond = 100

// tasks reads the processes that descend from this one.
type tasks struct {
	proc int // descriptor of /proc
	self int // this process as that /proc counts
	page int64
}

// task is one process.
type task struct {
	pid, parent int
	threads     int
	cpu         time.Duration // with that of the children it waited for
	memory      int64         // bytes, what it shares with others included
}

// openTasks keeps a descriptor of the /proc that is there now, which is the host's and works where
// a namespace may not have its own.
func openTasks() (*tasks, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	t := &tasks{proc: fd, page: int64(os.Getpagesize())}
	if t.self, err = t.readSelf(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tasks) readSelf() (int, error) {
	buf := make([]byte, 32)
	n, err := unix.Readlinkat(t.proc, "self", buf)
	if err != nil {
		return 0, fmt.Errorf("find this process in /proc: %w", err)
	}
	return strconv.Atoi(string(buf[:n]))
}

// descendants lists all processes below this one and shows each to visit.
func (t *tasks) descendants(visit func(task)) []task {
	below := map[int][]task{}
	for _, pid := range t.pids() {
		if one, ok := t.read(pid); ok {
			below[one.parent] = append(below[one.parent], one)
		}
	}
	var found []task
	queue := []int{t.self}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, one := range below[parent] {
			queue = append(queue, one.pid)
			found = append(found, one)
			if visit != nil {
				visit(one)
			}
		}
		delete(below, parent)
	}
	return found
}

// killAll kills all descendants and says how many there were. They are stopped first, until no new
// ones appear, so that none outruns the killing.
func (t *tasks) killAll() int {
	stopped := map[int]bool{}
	for range 100 {
		fresh := 0
		for _, one := range t.descendants(nil) {
			if !stopped[one.pid] {
				stopped[one.pid] = true
				fresh++
				_ = unix.Kill(one.pid, unix.SIGSTOP) // it may be gone
			}
		}
		if fresh == 0 {
			break
		}
	}
	for pid := range stopped {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return len(stopped)
}

func (t *tasks) pids() []int {
	fd, err := unix.Openat(t.proc, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(fd), "proc")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// read takes one process from its stat file. The name in it may hold anything, so the fields are
// counted from the last parenthesis.
func (t *tasks) read(pid int) (task, bool) {
	data := t.file(strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return task{}, false
	}
	f := bytes.Fields(data[end+1:])
	if len(f) < 22 {
		return task{}, false
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	one := task{
		pid:     pid,
		parent:  int(number(1)),
		threads: int(number(17)),
		cpu:     time.Duration(number(11)+number(12)+number(13)+number(14)) * time.Second / ticksPerSecond,
		memory:  number(21) * t.page,
	}
	if f[0][0] == 'Z' {
		one.threads, one.memory = 1, 0
	}
	return one, true
}

// proportional is the memory of processes with what they share counted once. It costs more than the
// plain sum, so it is asked only when that is too much.
func (t *tasks) proportional(all []task) int64 {
	var sum int64
	for _, one := range all {
		if pss, ok := pssOf(t.file(strconv.Itoa(one.pid) + "/smaps_rollup")); ok {
			sum += pss
			continue
		}
		sum += one.memory
	}
	return sum
}

func pssOf(rollup []byte) (int64, bool) {
	for line := range bytes.Lines(rollup) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "Pss:" {
			kb, err := strconv.ParseInt(string(f[1]), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}

// file reads a small file of /proc; one that is gone is empty.
func (t *tasks) file(name string) []byte {
	fd, err := unix.Openat(t.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer closeFD(fd)
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

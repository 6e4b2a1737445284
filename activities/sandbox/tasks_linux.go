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

// ticksPerSecond is the unit of times in /proc. It is the same on all supported architectures.
const ticksPerSecond = 100

// tasks reads the descendants of a process in /proc.
type tasks struct {
	proc int // descriptor of /proc
	self int // the process, as numbered in that /proc
	page int64
}

type task struct {
	pid, parent int
	at          string // path in /proc of a running thread, since the first one may end before the others
	threads     int
	cpu         time.Duration // time, with that of reaped children
	memory      int64         // bytes, including shared memory
	ended       bool          // the process is a zombie
}

// openTasks opens the current /proc. The host's remains usable in a namespace that has no /proc of
// its own.
func openTasks() (*tasks, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	t := &tasks{proc: fd, page: int64(os.Getpagesize())}
	buf := make([]byte, 32)
	n, err := unix.Readlinkat(fd, "self", buf)
	if err == nil {
		t.self, err = strconv.Atoi(string(buf[:n]))
	}
	if err != nil {
		closeFD(fd)
		return nil, fmt.Errorf("find this process in /proc: %w", err)
	}
	return t, nil
}

func (t *tasks) descendants() []task {
	below := map[int][]task{}
	for _, pid := range t.numbers(".") {
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
		}
		delete(below, parent)
	}
	return found
}

// killAll stops descendants until no new ones appear, then kills all of them. It returns their
// number.
func (t *tasks) killAll() int {
	stopped := map[int]bool{}
	for range 100 {
		fresh := 0
		for _, one := range t.descendants() {
			if !stopped[one.pid] {
				stopped[one.pid] = true
				fresh++
				_ = unix.Kill(one.pid, unix.SIGSTOP) // it may have ended
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

// numbers returns the numeric names in a directory of /proc.
func (t *tasks) numbers(dir string) []int {
	fd, err := unix.Openat(t.proc, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	found, _ := numbersIn(fd) // none if the process has ended
	return found
}

// numbersIn returns the numeric names in an open directory, and closes it.
func numbersIn(fd int) ([]int, error) {
	dir := os.NewFile(uintptr(fd), "proc")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	found := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			found = append(found, n)
		}
	}
	return found, nil
}

func (t *tasks) read(pid int) (task, bool) {
	one := task{pid: pid, at: strconv.Itoa(pid)}
	f := t.stat(one.at)
	if f == nil {
		return task{}, false
	}
	one.parent, one.threads = int(number(f[1])), int(number(f[17]))
	one.cpu = time.Duration(number(f[11])+number(f[12])+number(f[13])+number(f[14])) * time.Second / ticksPerSecond
	if f[0][0] == 'Z' && one.threads > 1 {
		// The first thread has ended, but the others still use resources: read those from another
		// thread.
		for _, thread := range t.numbers(one.at + "/task") {
			at := one.at + "/task/" + strconv.Itoa(thread)
			if other := t.stat(at); other != nil && other[0][0] != 'Z' {
				one.at, f = at, other
				break
			}
		}
	}
	if one.ended = f[0][0] == 'Z' || f[0][0] == 'X'; !one.ended {
		one.memory = number(f[21]) * t.page
	}
	return one, true
}

// stat returns the fields of a stat file that follow the name, which ends at the last parenthesis.
// It returns nil if the process has ended.
func (t *tasks) stat(at string) [][]byte {
	data := t.file(at + "/stat")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return nil
	}
	if f := bytes.Fields(data[end+1:]); len(f) >= 22 {
		return f
	}
	return nil
}

func number(field []byte) int64 {
	n, err := strconv.ParseInt(string(field), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// proportional returns the memory of processes, counting shared memory once. It is more expensive
// than the sum of their resident memory.
func (t *tasks) proportional(all []task) int64 {
	var sum int64
	for _, one := range all {
		memory := one.memory // if the kernel does not show the proportional size
		for line := range bytes.Lines(t.file(one.at + "/smaps_rollup")) {
			if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "Pss:" {
				memory = number(f[1]) << 10
			}
		}
		sum += memory
	}
	return sum
}

// file returns the first 4 KiB of a file in /proc, or nothing if the file does not exist.
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

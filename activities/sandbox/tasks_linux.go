package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// openTasks opens the current /proc. The host's remains usable in a namespace that has no /proc of its own.
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
	for _, pid := range t.numericNames(".") {
		if one, ok := t.readTask(pid); ok {
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

// killDescendants stops descendants until no new ones appear, then kills all of them. It returns their
// number.
func (t *tasks) killDescendants() int {
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

// numericNames returns the numeric names in a directory of /proc; none if the process has ended.
func (t *tasks) numericNames(dir string) []int {
	fd, err := unix.Openat(t.proc, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	open := os.NewFile(uintptr(fd), "proc")
	defer open.Close()
	names, _ := open.Readdirnames(-1)
	found := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			found = append(found, n)
		}
	}
	return found
}

func (t *tasks) readTask(pid int) (task, bool) {
	one := task{pid: pid, at: strconv.Itoa(pid)}
	f := t.statFields(one.at)
	if f == nil {
		return task{}, false
	}
	one.parent, one.threads = int(parseNumber(f[1])), int(parseNumber(f[17]))
	one.cpu = time.Duration(parseNumber(f[11])+parseNumber(f[12])+parseNumber(f[13])+parseNumber(f[14])) * time.Second / ticksPerSecond
	if f[0][0] == 'Z' && one.threads > 1 {
		// The first thread has ended, but the others still use resources: read those from another thread.
		for _, thread := range t.numericNames(one.at + "/task") {
			at := one.at + "/task/" + strconv.Itoa(thread)
			if other := t.statFields(at); other != nil && other[0][0] != 'Z' {
				one.at, f = at, other
				break
			}
		}
	}
	if one.ended = f[0][0] == 'Z' || f[0][0] == 'X'; !one.ended {
		one.memory = parseNumber(f[21]) * t.page
	}
	return one, true
}

// statFields returns the fields of a stat file that follow the name, which ends at the last parenthesis.
// It returns nil if the process has ended.
func (t *tasks) statFields(at string) [][]byte {
	data := t.readFile(at + "/stat")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return nil
	}
	if f := bytes.Fields(data[end+1:]); len(f) >= 22 {
		return f
	}
	return nil
}

func parseNumber(field []byte) int64 {
	n, err := strconv.ParseInt(string(field), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// proportionalMemory returns the memory of processes, counting shared memory once. It is more expensive
// than the sum of their resident memory.
func (t *tasks) proportionalMemory(all []task) int64 {
	var sum int64
	for _, one := range all {
		memory := one.memory // if the kernel does not show the proportional size
		for line := range bytes.Lines(t.readFile(one.at + "/smaps_rollup")) {
			if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "Pss:" {
				memory = parseNumber(f[1]) << 10
			}
		}
		sum += memory
	}
	return sum
}

// readFile returns the first 4 KiB of a file in /proc, or nothing if the file does not exist.
func (t *tasks) readFile(name string) []byte {
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

// measureUnnamed measures the command's open files without a name. It runs in the worker, which sees all
// processes.
func (r *confinedRun) measureUnnamed() (int64, bool) {
	tasks, err := openTasks()
	if err != nil {
		return 0, true
	}
	defer closeFD(tasks.proc)
	tasks.self = r.cmd.Process.Pid
	u := unnamed{own: deviceOf(r.s.options.Workspace), temp: deviceOf(r.s.temp), seen: map[[2]uint64]bool{}}
	for _, one := range tasks.descendants() {
		if !u.addProcess(one) {
			now, there := tasks.readTask(one.pid)
			u.hidden = u.hidden || there && !now.ended
		}
	}
	return u.bytes, u.hidden
}

type unnamed struct {
	own, temp uint64 // devices of the workspace and the temporary directory
	seen      map[[2]uint64]bool
	bytes     int64
	hidden    bool // some may be invisible
}

func deviceOf(dir string) uint64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	return uint64(st.Dev)
}

// addProcess adds the files of one process. It reports whether the process could be inspected.
func (u *unnamed) addProcess(one task) bool {
	dir := "/proc/" + one.at
	open, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return one.ended
	}
	for _, fd := range open {
		if err := u.addDescriptor(dir, fd.Name()); err != nil {
			return false
		}
	}
	maps, err := os.Open(dir + "/maps")
	if err != nil {
		return one.ended
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		u.hidden = u.hidden || mapsUnnamed(lines.Text())
	}
	return lines.Err() == nil || errors.Is(lines.Err(), syscall.ESRCH) || one.ended
}

// addDescriptor adds one open file. It ignores a descriptor that has been closed in the meantime.
func (u *unnamed) addDescriptor(dir, number string) error {
	name := dir + "/fd/" + number
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return ignoreGone(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		// A socket can contain descriptors that were sent but not yet received.
		info, _ := os.ReadFile(dir + "/fdinfo/" + number) // empty if it was closed
		u.hidden = u.hidden || sentDescriptors(info)
	case unix.S_IFREG:
		id := [2]uint64{uint64(st.Dev), st.Ino}
		if st.Nlink > 0 || u.seen[id] || u.inMemory(name, uint64(st.Dev)) {
			return nil
		}
		u.seen[id] = true
		u.bytes += st.Blocks * 512
	}
	return nil
}

// inMemory reports whether a file is in memory, other than in the workspace or the temporary
// directory. The memory limit covers such a file.
func (u *unnamed) inMemory(name string, device uint64) bool {
	var st unix.Statfs_t
	return device != u.own && device != u.temp && unix.Statfs(name, &st) == nil &&
		(st.Type == unix.TMPFS_MAGIC || st.Type == unix.HUGETLBFS_MAGIC)
}

func sentDescriptors(info []byte) bool {
	for line := range bytes.Lines(info) {
		if count, ok := bytes.CutPrefix(line, []byte("scm_fds:")); ok {
			return string(bytes.TrimSpace(count)) != "0"
		}
	}
	return false
}

// mapsUnnamed reports whether a line of memory maps is a removed file, whose size on disk is not
// visible there.
func mapsUnnamed(line string) bool {
	f := strings.Fields(line)
	if len(f) < 7 || f[len(f)-1] != "(deleted)" || f[4] == "0" {
		return false
	}
	memory := []string{"/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"}
	return !slices.ContainsFunc(memory, func(prefix string) bool { return strings.HasPrefix(f[5], prefix) })
}

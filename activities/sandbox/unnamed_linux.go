package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unnamed measures the command's open files without a name. It runs in the worker, which sees all
// processes.
func (r *confinedRun) unnamed() (int64, bool) {
	tasks, err := openTasks()
	if err != nil {
		return 0, true
	}
	defer closeFD(tasks.proc)
	tasks.self = r.cmd.Process.Pid
	u := unnamed{tasks: tasks, own: deviceOf(r.s.options.Workspace), temp: deviceOf(r.s.temp), seen: map[[2]uint64]bool{}}
	for _, one := range tasks.descendants() {
		if !u.add(one) {
			u.hidden = u.hidden || tasks.alive(one)
		}
	}
	return u.bytes, u.hidden
}

type unnamed struct {
	tasks     *tasks
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

// add adds the files of one process. It reports whether the process could be inspected.
func (u *unnamed) add(one task) bool {
	dir, err := unix.Openat(u.tasks.proc, one.at+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return one.ended
	}
	open, err := numbersIn(dir)
	if err != nil {
		return one.ended
	}
	for _, number := range open {
		if err := u.descriptor(one.at, strconv.Itoa(number)); err != nil {
			return false
		}
	}
	mapped, err := u.tasks.whole(one.at + "/maps")
	if err != nil {
		return one.ended
	}
	u.hidden = u.hidden || mapsUnnamed(mapped)
	return true
}

// descriptor adds one open file. It ignores a descriptor that has been closed in the meantime.
func (u *unnamed) descriptor(at, number string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(u.tasks.proc, at+"/fd/"+number, &st, 0); err != nil {
		return ignoreGone(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		// A socket can contain descriptors that were sent but not yet received.
		if info := u.tasks.file(at + "/fdinfo/" + number); sentDescriptors(info) {
			u.hidden = true
		}
	case unix.S_IFREG:
		id := [2]uint64{uint64(st.Dev), st.Ino}
		if st.Nlink > 0 || u.seen[id] || u.inMemory(at+"/fd/"+number, uint64(st.Dev)) {
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
	if device == u.own || device == u.temp {
		return false
	}
	fd, err := unix.Openat(u.tasks.proc, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.HUGETLBFS_MAGIC)
}

// sentDescriptors reports whether the fdinfo of a socket shows descriptors in flight.
func sentDescriptors(info []byte) bool {
	for line := range bytes.Lines(info) {
		if count, ok := bytes.CutPrefix(line, []byte("scm_fds:")); ok {
			return string(bytes.TrimSpace(count)) != "0"
		}
	}
	return false
}

// mapsUnnamed reports whether memory maps contain a removed file, whose size on disk is not visible
// there.
func mapsUnnamed(maps []byte) bool {
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) < 7 || f[len(f)-1] != "(deleted)" || f[4] == "0" {
			continue
		}
		memory := false
		for _, kind := range []string{"/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"} {
			memory = memory || strings.HasPrefix(f[5], kind)
		}
		if !memory {
			return true
		}
	}
	return false
}

func (t *tasks) alive(one task) bool {
	now, ok := t.read(one.pid)
	return ok && !now.ended
}

// whole returns the content of a file in /proc. It is empty if the process has ended.
func (t *tasks) whole(name string) ([]byte, error) {
	fd, err := unix.Openat(t.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 16<<20))
	if errors.Is(err, syscall.ESRCH) {
		return nil, nil
	}
	return data, err
}

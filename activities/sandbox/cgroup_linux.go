package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type cgroup struct {
	dir       string
	fd        int
	memory    bool // whether memory is limited
	processes bool // whether processes are limited
}

// ownThreads is an upper bound on the number of the child's own threads in a command's cgroup.
const ownThreads = 16

// newCgroup creates a cgroup in a delegated directory. It sets the limits that the available
// controllers support.
func newCgroup(delegated string, limits Limits) (*cgroup, error) {
	dir, err := os.MkdirTemp(delegated, "command-")
	if err != nil {
		return nil, fmt.Errorf("make a cgroup in %s: %w", delegated, err)
	}
	group := &cgroup{dir: dir}
	controllers := strings.Fields(content(filepath.Join(dir, "cgroup.controllers")))
	values := map[string]string{}
	if limits.Memory > 0 && slices.Contains(controllers, "memory") {
		values["memory.max"] = strconv.FormatInt(limits.Memory, 10)
		values["memory.oom.group"] = "1"
		group.memory = true
	}
	if limits.Processes > 0 && slices.Contains(controllers, "pids") {
		group.processes = true
		values["pids.max"] = strconv.Itoa(limits.Processes + ownThreads)
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("limit a cgroup: %w", err), os.Remove(dir))
		}
	}
	if group.memory {
		// The file does not exist without the swap controller.
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)
	}
	group.fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup %s: %w", dir, err), os.Remove(dir))
	}
	return group, nil
}

// kill kills all processes of the cgroup at once. It needs kernel 5.14 or later.
func (g *cgroup) kill() {
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // the child kills too
}

// account adds the cgroup's statistics to the exit and removes the cgroup.
func (g *cgroup) account(e *Exit) error {
	if usec, ok := field(filepath.Join(g.dir, "cpu.stat"), "usage_usec"); ok {
		e.CPU = max(e.CPU, time.Duration(usec)*time.Microsecond)
	}
	if kills, ok := field(filepath.Join(g.dir, "memory.events"), "oom_kill"); ok && kills > 0 && e.Ended == "" {
		e.Ended = endedMemory
	}
	return g.remove()
}

// remove removes the cgroup. It retries, because the kernel may count the last process for a moment
// after its end.
func (g *cgroup) remove() error {
	g.kill()
	defer closeFD(g.fd)
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil || os.IsNotExist(err) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("remove the cgroup of a command: %w", err)
}

// content returns the content of a kernel file, or "" if it cannot be read.
func content(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// field returns the number that follows a name in a file of lines "name number".
func field(path, name string) (int64, bool) {
	for line := range strings.Lines(content(path)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// delegated finds a cgroup directory that can limit memory and processes. It is the worker's own
// cgroup or its parent, because a cgroup that contains processes cannot have children with limits.
func delegated() string {
	mount, own := cgroupMount(), ownCgroup()
	if mount == "" || own == "" {
		return ""
	}
	for _, dir := range []string{filepath.Join(mount, own), filepath.Join(mount, filepath.Dir(own))} {
		control := strings.Fields(content(filepath.Join(dir, "cgroup.subtree_control")))
		if slices.Contains(control, "memory") && slices.Contains(control, "pids") && isDelegated(dir, own == "/") {
			return dir
		}
	}
	return ""
}

// isDelegated reports whether a cgroup is delegated to this worker. Write permission is not
// sufficient: root can write everywhere.
func isDelegated(dir string, top bool) bool {
	if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	if os.Geteuid() != 0 || top {
		return true
	}
	mark := make([]byte, 8)
	n, err := unix.Getxattr(dir, "trusted.delegate", mark)
	return err == nil && string(mark[:n]) == "1"
}

func ownCgroup() string {
	for line := range strings.Lines(content("/proc/self/cgroup")) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

func cgroupMount() string {
	for line := range strings.Lines(content("/proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		if f := strings.Fields(before); ok && len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return f[4]
		}
	}
	return ""
}

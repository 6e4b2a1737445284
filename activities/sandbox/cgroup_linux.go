package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"conclave/engine/files/filelock"
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
	controllers := strings.Fields(fileContent(filepath.Join(dir, "cgroup.controllers")))
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

func (g *cgroup) killProcesses() {
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // the child kills too
}

func (g *cgroup) settleExit(e *Exit) error {
	if usec, ok := readField(filepath.Join(g.dir, "cpu.stat"), "usage_usec"); ok {
		e.CPU = max(e.CPU, time.Duration(usec)*time.Microsecond)
	}
	if kills, ok := readField(filepath.Join(g.dir, "memory.events"), "oom_kill"); ok && kills > 0 && e.Ended == "" {
		e.Ended = endedMemory
	}
	return g.remove()
}

// remove removes the cgroup. It retries, because the kernel may count the last process for a moment
// after its end.
func (g *cgroup) remove() error {
	g.killProcesses()
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

func fileContent(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func readField(path, name string) (int64, bool) {
	for line := range strings.Lines(fileContent(path)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// delegatedGroup finds a cgroup directory that can limit memory and processes. It is the worker's own
// cgroup or its parent, because a cgroup that contains processes cannot have children with limits.
func delegatedGroup() string {
	mount, own := cgroupMount(), ownCgroup()
	if mount == "" || own == "" {
		return ""
	}
	for _, dir := range []string{filepath.Join(mount, own), filepath.Join(mount, filepath.Dir(own))} {
		control := strings.Fields(fileContent(filepath.Join(dir, "cgroup.subtree_control")))
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
	for line := range strings.Lines(fileContent("/proc/self/cgroup")) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

func cgroupMount() string {
	for line := range strings.Lines(fileContent("/proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		if f := strings.Fields(before); ok && len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return f[4]
		}
	}
	return ""
}

// attacks is a script that tries some attacks. It prints those that succeed, and nothing if all fail.
const attacks = `
cat "$1" && echo "read a file outside the workspace"
echo changed > "$1" && echo "changed a file outside the workspace"
echo new > "$2" && echo "made a file outside the workspace"
cat /proc/$3/environ && echo "read the environment of the worker"
exit 0`

const trialTime = 10 * time.Second

func probeHost(ctx context.Context) Host {
	h := Host{Level: Off, Landlock: landlockVersion()}
	var first error
	if h.Landlock > 0 && filters {
		for _, level := range []Level{Full, Landlock} {
			h.Level = level
			err := tryAttacks(ctx, h)
			if err == nil {
				break
			}
			first, h.Level = cmp.Or(first, err), Off
		}
	}
	if h.Level != Full {
		h.Missing = missingFeatures(first, h.Landlock)
	}
	if h.Level == Off {
		return h
	}
	if h.Cgroup = delegatedGroup(); h.Cgroup != "" && tryAttacks(ctx, h) != nil {
		h.Cgroup = "" // it cannot be used; the guard measures instead
	}
	return h
}

func tryAttacks(ctx context.Context, h Host) (err error) {
	temp, err := filelock.OpenScratch("", filelock.Probe)
	if err != nil {
		return err
	}
	defer temp.Close()
	dir := temp.Path
	workspace, secret := filepath.Join(dir, "workspace"), filepath.Join(dir, "secret")
	if err := errors.Join(os.Mkdir(workspace, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		return err
	}
	s, err := Open(Options{
		Workspace: workspace, Temp: dir, Level: h.Level, Host: h,
		Limits: Limits{Time: trialTime, Processes: 64, Output: 1 << 16},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.runSilently(ctx, "/bin/true"); err != nil {
		return err
	}
	return s.runSilently(ctx, "/bin/sh", "-c", attacks, "sh", secret, filepath.Join(dir, "new"), strconv.Itoa(os.Getpid()))
}

func (s *Sandbox) runSilently(ctx context.Context, args ...string) error {
	var stdout, stderr bytes.Buffer
	exit, err := s.Run(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return err
	}
	if exit.Code != 0 || exit.Ended != "" {
		return fmt.Errorf("%s ended with %d %s%s: %s", args[0], exit.Code, exit.Signal, exit.Ended, strings.TrimSpace(stderr.String()))
	}
	if attack := strings.TrimSpace(stdout.String()); attack != "" {
		return fmt.Errorf("an attack succeeded: %s", attack)
	}
	return nil
}

// missingFeatures lists the reasons visible in the host's settings, with their remedies, and the error of
// the trial.
func missingFeatures(trial error, landlock int) []string {
	var list []string
	if !filters {
		list = append(list, "there is no system call filter for this processor architecture; run the worker on amd64 or arm64")
	}
	if landlock == 0 {
		list = append(list, "the kernel has no Landlock; use Linux 5.13 or newer with landlock in its lsm= boot parameter, and a container runtime whose seccomp profile lets landlock_create_ruleset through")
	}
	unprivileged := os.Geteuid() != 0
	switch {
	case sysctlValue("user/max_user_namespaces") == "0":
		list = append(list, "user namespaces are off (user.max_user_namespaces is 0); set sysctl user.max_user_namespaces=15000")
	case unprivileged && sysctlValue("kernel/unprivileged_userns_clone") == "0":
		list = append(list, "user namespaces are off for ordinary users; set sysctl kernel.unprivileged_userns_clone=1")
	case unprivileged && sysctlValue("kernel/apparmor_restrict_unprivileged_userns") == "1":
		list = append(list, "AppArmor keeps ordinary users from user namespaces; give this program an AppArmor profile with the line userns, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0")
	case inContainer():
		list = append(list, "the container that the worker runs in refuses namespaces or mounts; give it a seccomp profile that allows clone, unshare, mount and pivot_root (docker run --security-opt seccomp=...), or run the worker outside of it")
	}
	if trial != nil {
		list = append(list, "a command at level full failed: "+trial.Error())
	}
	return list
}

func sysctlValue(name string) string { return strings.TrimSpace(fileContent("/proc/sys/" + name)) }

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

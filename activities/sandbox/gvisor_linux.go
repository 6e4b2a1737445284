package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// startGvisor starts a command in a container of gVisor's program runsc, with a kernel of its own and
// the same view of the host's files as at level full. The child guards runsc: it measures memory and
// processor time, and kills runsc, whose processes end with it.
func (s *Sandbox) startGvisor(c Command, stdout, stderr stream) (*running, error) {
	sp := s.spec(c)
	program, err := lookPath(c.Args[0], sp.Path, path.Join(workspacePath, c.Dir))
	if err != nil {
		return refused(err, stderr), nil
	}
	sp.Args = append([]string{program}, c.Args[1:]...)
	b, err := newBundle(s.options.Temp, s.options.Host.Gvisor, sp)
	if err != nil {
		return nil, err
	}
	sp.Args, sp.Env, sp.Dir = b.runsc("run", "--bundle="+b.dir, b.id), runscEnvironment, "."
	// The threads of runsc are not those of the command, whose number the container limits.
	sp.Limits.Processes, sp.AskThreads = 0, false
	r, err := s.startChild(sp, stdout, stderr)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	wait := r.wait
	r.wait = func() (Exit, error) {
		e, err := wait()
		return e, errors.Join(err, b.close(e))
	}
	return r, nil
}

// runscEnvironment is the environment of runsc, not of commands.
var runscEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// bundle is the directory of a container, in the format of the Open Container Initiative.
type bundle struct {
	dir, id string
	program string // path of runsc
}

// newBundle writes the bundle of a command into a new directory.
func newBundle(parent, program string, s spec) (_ *bundle, err error) {
	dir, err := os.MkdirTemp(parent, "gvisor-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for gVisor: %w", err)
	}
	b := &bundle{dir: dir, id: fmt.Sprintf("conclave-%d-%s", os.Getpid(), filepath.Base(dir)), program: program}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make the container of a command: %w", err), os.RemoveAll(dir))
		}
	}()
	mounts, err := b.build(s)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(s.container(mounts))
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
}

// mount is a mount of a container.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

// build creates the root of the container with its mount points.
func (b *bundle) build(s spec) ([]mount, error) {
	files := maps.Clone(madeFiles)
	files["etc/passwd"] = user + ":x:0:0::/tmp/home:/bin/sh\n"
	files["etc/group"] = user + ":x:0:\n"
	for name, content := range files {
		if err := makeFile(b.inside(name), content); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"dev", "proc", "run", "sys", "tmp", "var/tmp", workspacePath} {
		if err := os.MkdirAll(b.inside(dir), 0o755); err != nil {
			return nil, err
		}
	}
	mounts := []mount{
		bind(s.Workspace, workspacePath),
		bind(s.Temp, "/tmp"),
		{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", s.sharedSize())}},
	}
	for _, part := range s.ReadOnly {
		source := filepath.Join(s.Workspace, part)
		// Earlier commands may have replaced it by a link.
		if real, err := filepath.EvalSymlinks(source); err == nil && real == source {
			mounts = append(mounts, bind(source, path.Join(workspacePath, part), "ro"))
		}
	}
	for _, name := range s.readable() {
		found, err := b.mountPoint(name)
		if err != nil {
			return nil, err
		}
		if found {
			mounts = append(mounts, bind(name, name, "ro"))
		}
	}
	return mounts, nil
}

func (b *bundle) inside(name string) string { return filepath.Join(b.dir, "rootfs", name) }

// mountPoint creates a mount point for a file or directory of the host, and reports whether one is
// needed: a link is copied, and a missing file is left out.
func (b *bundle) mountPoint(name string) (bool, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return true, os.MkdirAll(b.inside(name), 0o755)
	case info.Mode()&os.ModeSymlink == 0:
		return true, makeFile(b.inside(name), "")
	}
	target, err := os.Readlink(name)
	return false, errors.Join(err, os.MkdirAll(filepath.Dir(b.inside(name)), 0o755), os.Symlink(target, b.inside(name)))
}

func bind(from, to string, options ...string) mount {
	return mount{Destination: to, Type: "bind", Source: from, Options: append([]string{"rbind", "nosuid", "nodev"}, options...)}
}

// container is the configuration of the container. The command has no capabilities; as user 0 of the
// container it owns the files of the worker's user.
func (s spec) container(mounts []mount) any {
	type object map[string]any
	rlimits := []object{{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}, {"type": "RLIMIT_NOFILE", "soft": 4096, "hard": 4096}}
	if s.Limits.Processes > 0 {
		rlimits = append(rlimits, object{"type": "RLIMIT_NPROC", "soft": s.Limits.Processes, "hard": s.Limits.Processes})
	}
	if s.Limits.Disk > 0 {
		rlimits = append(rlimits, object{"type": "RLIMIT_FSIZE", "soft": s.Limits.Disk, "hard": s.Limits.Disk})
	}
	var namespaces []object
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	return object{
		"ociVersion": "1.0.2", "hostname": "sandbox", "root": object{"path": "rootfs", "readonly": true}, "mounts": mounts,
		"process": object{
			"args": s.Args, "env": s.Env, "cwd": path.Join(workspacePath, s.Dir), "user": object{"uid": 0, "gid": 0},
			"capabilities": object{}, "noNewPrivileges": true, "rlimits": rlimits,
		},
		"linux": object{"namespaces": namespaces},
	}
}

// runsc returns a command line of runsc. For root it keeps its state in its default directory, where
// it leaves a mount for all its containers; for other users, in the bundle.
func (b *bundle) runsc(command string, args ...string) []string {
	line := []string{b.program, "--network=none", "--overlay2=none", "--ignore-cgroups", "--log=" + b.log(), "--log-format=json"}
	if os.Geteuid() != 0 {
		line = append(line, "--rootless", "--root="+filepath.Join(b.dir, "state"))
	}
	return append(append(line, command), args...)
}

func (b *bundle) log() string { return filepath.Join(b.dir, "log") }

const (
	// runscFailed is the exit code of runsc if it could not run the command.
	runscFailed = 128

	// deleteTimeout bounds the removal of a container's state.
	deleteTimeout = 10 * time.Second
)

// close removes the container and its bundle. It returns the error of runsc, which writes it to its log.
func (b *bundle) close(e Exit) error {
	var failure error
	if e.Code == runscFailed {
		if said, _ := os.ReadFile(b.log()); len(said) > 0 {
			failure = fmt.Errorf("gVisor could not run the command: %s", lastMessage(said))
		}
	}
	if e.Signal != "" || e.Ended != "" { // runsc was killed, and has left its state
		ctx, stop := context.WithTimeout(context.Background(), deleteTimeout)
		defer stop()
		line := b.runsc("delete", "--force", b.id)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env = runscEnvironment
		_ = cmd.Run() // the state may never have been written
	}
	return errors.Join(failure, os.RemoveAll(b.dir))
}

// lastMessage returns the last message in a log of JSON objects.
func lastMessage(log []byte) string {
	last := string(bytes.TrimSpace(log))
	for line := range bytes.Lines(log) {
		var entry struct{ Msg string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg != "" {
			last = entry.Msg
		}
	}
	return strings.TrimSpace(last)
}

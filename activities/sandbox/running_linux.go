package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confinedRun is the worker's side of a running child.
type confinedRun struct {
	s       *Sandbox
	caches  []Cache
	cmd     *exec.Cmd
	control *os.File // closing it tells the child to end
	status  *os.File
	cgroup  *cgroup  // nil if not used
	network *passage // nil if not used
	copies  sync.WaitGroup
	reads   []*os.File // the worker's ends of the output pipes
	writes  []*os.File // the child's ends of the output pipes
	ended   chan struct{}
	once    sync.Once
}

func (r *confinedRun) launchChild(sp *spec, stdout, stderr stream) error {
	for _, m := range r.s.passedMounts(r.caches) {
		tree, err := m.open()
		if err != nil {
			return err
		}
		r.cmd.ExtraFiles, sp.Trees = append(r.cmd.ExtraFiles, tree), append(sp.Trees, m.at)
	}
	if sp.Network {
		passage, err := openPassage()
		if err != nil {
			return err
		}
		r.network = passage
		r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, passage.theirs)
	}
	if err := r.connectOutput(stdout, stderr); err != nil {
		return err
	}
	if err := r.createGroup(sp); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start the sandbox: %w", err)
	}
	return nil
}

// connectOutput creates the output pipes. The sandbox's user owns them, so that commands can open
// /dev/stdout.
func (r *confinedRun) connectOutput(stdout, stderr stream) error {
	for _, to := range []stream{stdout, stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		r.reads, r.writes = append(r.reads, read), append(r.writes, write)
		if r.s.host.outer != os.Geteuid() {
			if err := write.Chown(r.s.host.outer, r.s.host.outer); err != nil {
				return fmt.Errorf("give the output to the sandbox's user: %w", err)
			}
		}
		r.copies.Go(func() {
			_, _ = io.Copy(to, read) // ends with the pipe, or at the limit, which output records
			read.Close()
		})
	}
	r.cmd.Stdout, r.cmd.Stderr = r.writes[0], r.writes[1]
	return nil
}

func (r *confinedRun) createGroup(sp *spec) error {
	if r.s.options.Host.Cgroup == "" {
		return nil
	}
	group, err := newCgroup(r.s.options.Host.Cgroup, sp.Limits)
	if err != nil {
		return err
	}
	r.cgroup = group
	sp.Accounted = group.memory
	sp.AskThreads = sp.AskThreads && !group.processes
	r.cmd.SysProcAttr.UseCgroupFD = true
	r.cmd.SysProcAttr.CgroupFD = group.fd
	return nil
}

func (r *confinedRun) abandonChild() error {
	closeFiles(r.writes)
	closeFiles(r.reads)
	r.copies.Wait()
	r.control.Close()
	r.status.Close()
	if r.network != nil {
		r.network.close(false)
	}
	if r.cgroup != nil {
		return r.cgroup.remove()
	}
	return nil
}

func (r *confinedRun) sendSpec(sp spec) {
	closeFiles(r.writes)
	r.ended = make(chan struct{})
	if r.network != nil {
		go r.network.serveProxy(r.s.options.Network)
	}
	go func() {
		_ = json.NewEncoder(r.control).Encode(sp) // if the child has died, its status is missing
	}()
}

// killTimeout is how long the worker waits for the child to kill its processes before killing them
// itself.
const killTimeout = 5 * time.Second

// killProcesses ends all processes. At level landlock it asks the child to kill them, and the child ends
// last.
func (r *confinedRun) killProcesses() {
	r.once.Do(func() {
		if r.s.options.Level == Full {
			if r.cgroup != nil {
				r.cgroup.killProcesses()
			}
			_ = r.cmd.Process.Kill() // it may have ended
			return
		}
		r.control.Close()
		go r.enforceKill()
	})
}

// enforceKill kills the processes and then the child if the child is still running after
// killTimeout.
func (r *confinedRun) enforceKill() {
	for {
		select {
		case <-r.ended:
			return
		case <-time.After(killTimeout):
		}
		if tasks, err := openTasks(); err == nil {
			tasks.self = r.cmd.Process.Pid
			if tasks.killDescendants() == 0 {
				_ = r.cmd.Process.Kill()
			}
			closeFD(tasks.proc)
		}
	}
}

// awaitEnd waits for the child, which ends after all its processes.
func (r *confinedRun) awaitEnd() (Exit, error) {
	err := r.cmd.Wait()
	close(r.ended)
	r.control.Close()
	if r.network != nil {
		r.network.close(true)
	}
	var st status
	ok := json.NewDecoder(r.status).Decode(&st) == nil
	r.status.Close()
	r.drainOutput()
	e := st.Exit
	var groupErr error
	if r.cgroup != nil {
		groupErr = r.cgroup.settleExit(&e)
	}
	switch {
	case st.Error != "":
		return e, errors.Join(fmt.Errorf("sandbox: %s", st.Error), groupErr)
	case !ok && e.Ended == "":
		return e, errors.Join(errors.New("the sandbox was killed or failed without a result"), err, groupErr)
	case !ok:
		e.Code, e.Signal = 128+int(syscall.SIGKILL), unix.SignalName(syscall.SIGKILL)
	}
	return e, groupErr
}

// drainOutput reads the rest of the output. Its time is bounded, because a process may still hold a pipe
// open.
func (r *confinedRun) drainOutput() {
	done := make(chan struct{})
	go func() {
		r.copies.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(outputWait):
		closeFiles(r.reads)
		<-done
	}
}

const (
	// innerID is the user ID and group ID of a command in its namespace at level full.
	innerID = 1000

	// nobodyID is the unprivileged user and group of the host to which innerID maps if the worker
	// is root.
	nobodyID = 65534
)

type hostState struct {
	outer int      // the host's user behind innerID
	idmap *os.File // a user namespace that maps root's files to that user; nil if not needed
}

func (s *Sandbox) prepareHost() {
	s.host.outer = os.Geteuid()
	if s.options.Level == Full && os.Geteuid() == 0 {
		// If the file system does not support idmapped mounts, the command's user is root on the
		// host, whose processes the kernel does not count (see countsProcesses).
		if idmap, err := openIDMap(nobodyID); err == nil {
			if (s.options.Tree != nil || isIDMappable(idmap, s.options.Workspace)) && isIDMappable(idmap, s.temp) {
				s.host.idmap, s.host.outer = idmap, nobodyID
			} else {
				idmap.Close()
			}
		}
	}
}

func (s *Sandbox) releaseHost() error {
	if s.host.idmap != nil {
		return s.host.idmap.Close()
	}
	return nil
}

func (s *Sandbox) startCommand(c Command, caches []Cache, stdout, stderr stream) (*running, error) {
	if s.options.Level == Off {
		return s.startUnconfined(c, caches, stdout, stderr)
	}
	return s.startChild(s.childSpec(c, caches), caches, stdout, stderr)
}

func (s *Sandbox) startChild(sp spec, caches []Cache, stdout, stderr stream) (*running, error) {
	controlRead, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, controlRead.Close(), control.Close())
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{childName}
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{controlRead, statusWrite}
	cmd.SysProcAttr = s.childAttributes()
	defer func() { closeFiles(cmd.ExtraFiles) }()
	r := &confinedRun{s: s, caches: caches, cmd: cmd, control: control, status: statusRead}
	if err := r.launchChild(&sp, stdout, stderr); err != nil {
		return nil, errors.Join(err, r.abandonChild())
	}
	r.sendSpec(sp)
	return &running{kill: r.killProcesses, wait: r.awaitEnd, unnamed: r.measureUnnamed}, nil
}

func (s *Sandbox) childSpec(c Command, caches []Cache) spec {
	toolchains := s.options.Toolchains
	if s.options.own != "" {
		toolchains = append(slices.Clone(toolchains), s.options.own)
	}
	return spec{
		AskThreads: s.options.Limits.Processes > 0 && !s.countsProcesses(), Counted: s.countsProcesses(),
		Level: s.options.Level, Args: c.Args, Env: s.commandEnvironment(c.Env, caches), Path: searchPath(s.options.Toolchains),
		Dir: c.Dir, Workspace: s.options.Workspace, Temp: s.temp, ReadOnly: s.options.ReadOnly,
		Toolchains: toolchains, Caches: caches, Switch: s.host.outer != os.Geteuid(),
		Landlock: s.options.Host.Landlock, Limits: s.options.Limits, Network: s.options.Network.Serve != nil,
	}
}

// passedMount is a mount that the child cannot make itself.
type passedMount struct {
	at   string // its mount point in the new root
	open func() (*os.File, error)
}

func (s *Sandbox) passedMounts(caches []Cache) []passedMount {
	var all []passedMount
	pass := func(at, dir string, tree func(owner int) (*os.File, error)) {
		switch {
		case tree != nil:
			all = append(all, passedMount{at, func() (*os.File, error) { return tree(s.host.outer) }})
		case s.host.idmap != nil:
			all = append(all, passedMount{at, func() (*os.File, error) { return ownedTree(s.host.idmap, dir) }})
		}
	}
	pass(workspaceMount, s.options.Workspace, s.options.Tree)
	pass(tempMount, s.temp, nil)
	for _, c := range caches {
		pass(c.mountPoint(), c.Dir, c.Tree)
	}
	return all
}

// countsProcesses reports whether the kernel counts a command's processes separately from the user's
// others. It does so for each user namespace since version 5.14, which is the version after the
// first with Landlock, but never for root.
func (s *Sandbox) countsProcesses() bool {
	return s.options.Level == Full && s.host.outer != 0 && s.options.Host.Landlock > 1
}

// childAttributes returns the process attributes of the child: at level full, new namespaces and all
// capabilities in them.
func (s *Sandbox) childAttributes() *syscall.SysProcAttr {
	if s.options.Level != Full {
		return &syscall.SysProcAttr{Setsid: true}
	}
	group := s.host.outer
	if group == os.Geteuid() {
		group = os.Getegid()
	}
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: innerID, HostID: s.host.outer, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: innerID, HostID: group, Size: 1}},
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		AmbientCaps:                setupCapabilities,
	}
}

// openIDMap opens a user namespace that maps root to another user of the host. In a mount with this
// map, root's files appear as that user's, so that the commands of a root worker run unprivileged.
func openIDMap(outer int) (*os.File, error) {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: outer, Size: 1}}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{idleName}
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	hold.Close()
	_ = cmd.Wait() // the open file keeps the namespace
	return ns, err
}

func ownedTree(idmap *os.File, dir string) (*os.File, error) {
	fd, err := copyMount(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(idmap.Fd()),
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func isIDMappable(idmap *os.File, dir string) bool {
	tree, err := ownedTree(idmap, dir)
	if err != nil {
		return false
	}
	tree.Close()
	return true
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

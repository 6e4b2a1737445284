package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

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

func (s *Sandbox) prepare() {
	s.host.outer = os.Geteuid()
	if s.options.Level == Full && os.Geteuid() == 0 {
		// If the file system does not support idmapped mounts, the command's user is root on the
		// host, whose processes the kernel does not count (see counted).
		if idmap, err := openIDMap(nobodyID); err == nil {
			if (s.options.Tree != nil || idmappable(idmap, s.options.Workspace)) && idmappable(idmap, s.temp) {
				s.host.idmap, s.host.outer = idmap, nobodyID
			} else {
				idmap.Close()
			}
		}
	}
}

func (s *Sandbox) release() error {
	if s.host.idmap != nil {
		return s.host.idmap.Close()
	}
	return nil
}

func (s *Sandbox) start(c Command, stdout, stderr stream) (*running, error) {
	switch s.options.Level {
	case Off:
		return s.startUnconfined(c, stdout, stderr)
	case Gvisor:
		return s.startGvisor(c, stdout, stderr)
	default:
		return s.startChild(s.spec(c), stdout, stderr)
	}
}

// startChild starts the child that confines a command, or guards gVisor.
func (s *Sandbox) startChild(sp spec, stdout, stderr stream) (*running, error) {
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
	cmd.SysProcAttr = s.attributes()
	defer func() { closeFiles(cmd.ExtraFiles) }()
	r := &confinedRun{s: s, cmd: cmd, control: control, status: statusRead}
	if err := r.launch(&sp, stdout, stderr); err != nil {
		return nil, errors.Join(err, r.abandon())
	}
	r.send(sp)
	return &running{kill: r.kill, wait: r.wait, unnamed: r.unnamed}, nil
}

func (s *Sandbox) spec(c Command) spec {
	return spec{
		AskThreads: s.options.Limits.Processes > 0 && !s.counted(), Counted: s.counted(),
		Level: s.options.Level, Args: c.Args, Env: s.environment(c.Env), Path: searchPath(s.options.Toolchains),
		Dir: c.Dir, Workspace: s.options.Workspace, Temp: s.temp, ReadOnly: s.options.ReadOnly,
		Toolchains: s.options.Toolchains, Trees: s.trees(), Switch: s.host.outer != os.Geteuid(),
		Landlock: s.options.Host.Landlock, Limits: s.options.Limits, Network: s.options.Network.Serve != nil,
	}
}

// trees returns the mount points of the mounts that the child cannot make itself.
func (s *Sandbox) trees() (at []string) {
	if s.options.Tree != nil || s.host.idmap != nil {
		at = append(at, workspaceMount)
	}
	if s.host.idmap != nil {
		at = append(at, tempMount)
	}
	return at
}

// tree returns a detached mount for one of these mount points.
func (s *Sandbox) tree(at string) (*os.File, error) {
	switch {
	case at == tempMount:
		return ownedTree(s.host.idmap, s.temp)
	case s.options.Tree != nil:
		return s.options.Tree(s.host.outer)
	}
	return ownedTree(s.host.idmap, s.options.Workspace)
}

// counted reports whether the kernel counts a command's processes separately from the user's
// others. It does so for each user namespace since version 5.14, which is the version after the
// first with Landlock, but never for root.
func (s *Sandbox) counted() bool {
	return s.options.Level == Full && s.host.outer != 0 && s.options.Host.Landlock > 1
}

// attributes returns the process attributes of the child: at level full, new namespaces and all
// capabilities in them.
func (s *Sandbox) attributes() *syscall.SysProcAttr {
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

// ownedTree returns a detached mount of a directory, with owners changed according to idmap.
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

func idmappable(idmap *os.File, dir string) bool {
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

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// innerID is the user and group that a command has at level full, as it sees them.
const innerID = 1000

// nobodyID is the user and group of the host that stand behind innerID when the worker is root: one
// without rights, whose number of processes the kernel limits.
const nobodyID = 65534

// hosting is what a sandbox holds on Linux.
type hosting struct {
	outer  int      // the host's user behind innerID
	idmap  *os.File // a user namespace that gives root's files to that user; nil if not needed
	groups *groups  // nil without cgroups
}

func (s *Sandbox) prepare() error {
	s.host.outer = os.Geteuid()
	if s.options.Level == Off {
		return nil
	}
	if s.options.Level == Full && os.Geteuid() == 0 {
		// Without mounts that change the owner, commands have to be root behind their namespace:
		// then the kernel does not limit their number, and the child does (spec.Ask).
		if idmap, err := openIDMap(nobodyID); err == nil {
			if idmappable(idmap, s.options.Workspace) && idmappable(idmap, s.temp) {
				s.host.idmap, s.host.outer = idmap, nobodyID
			} else {
				idmap.Close()
			}
		}
	}
	if s.options.Host.Cgroup != "" {
		s.host.groups = &groups{dir: s.options.Host.Cgroup}
	}
	return nil
}

func (s *Sandbox) release() error {
	if s.host.idmap != nil {
		return s.host.idmap.Close()
	}
	return nil
}

func (s *Sandbox) start(c Command, stdout, stderr stream) (*running, error) {
	if s.options.Level == Off {
		return s.plain(c, stdout, stderr)
	}
	return s.confined(c, stdout, stderr)
}

// confined starts the child and tells it what to do.
func (s *Sandbox) confined(c Command, stdout, stderr stream) (*running, error) {
	var opened files
	defer func() { opened.close() }()
	sp := s.spec(c)
	controlOut, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	statusIn, statusOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, controlOut.Close(), control.Close())
	}
	opened = append(opened, controlOut, statusOut)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{childName}
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{controlOut, statusOut}
	cmd.WaitDelay = outputWait
	cmd.SysProcAttr = s.attributes()
	r := &confinedRun{s: s, cmd: cmd, control: control, status: statusIn}
	err = func() error {
		if s.host.idmap != nil {
			trees, err := s.trees()
			opened = append(opened, trees...)
			if err != nil {
				return err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, trees...)
		}
		if err := r.connect(stdout, stderr); err != nil {
			return err
		}
		if err := r.group(&sp); err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start the sandbox: %w", err)
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, r.abandon())
	}
	r.begin(sp)
	return &running{kill: r.kill, wait: r.wait, unnamed: r.unnamed}, nil
}

func (s *Sandbox) spec(c Command) spec {
	return spec{
		Ask: s.options.Limits.Processes > 0 && !s.counted(), Counted: s.counted(),
		Level: s.options.Level, Args: c.Args, Env: s.environment(c.Env), Path: searchPath(s.options.Toolchains),
		Dir: c.Dir, Workspace: s.options.Workspace, Temp: s.temp, ReadOnly: s.options.ReadOnly,
		Toolchains: s.options.Toolchains, Trees: s.host.idmap != nil, Switch: s.host.outer != os.Geteuid(),
		Landlock: s.options.Host.Landlock, Limits: s.options.Limits,
	}
}

// counted says whether the kernel counts a command's processes apart from all others of the user that
// stands behind it. It does so for each user namespace, from version 5.14 on: the version before, the
// first with Landlock, counts over the whole host, so that sandboxes of one user would take processes
// from each other. It never limits those of root.
func (s *Sandbox) counted() bool {
	return s.options.Level == Full && s.host.outer != 0 && s.options.Host.Landlock > 1
}

// attributes are those of the child: at level full it begins in namespaces of its own, with all
// capabilities there and none on the host.
func (s *Sandbox) attributes() *syscall.SysProcAttr {
	if s.options.Level != Full {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: innerID, HostID: s.host.outer, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: innerID, HostID: s.outerGroup(), Size: 1}},
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		AmbientCaps:                setupCapabilities,
	}
}

func (s *Sandbox) outerGroup() int {
	if s.host.outer == os.Geteuid() {
		return os.Getegid()
	}
	return s.host.outer
}

type files []*os.File

func (f files) close() {
	for _, file := range f {
		file.Close()
	}
}

// openIDMap gives a user namespace in which root is another user of the host. A mount with it shows
// root's files as that user's, and files that the user makes there are root's on the disk. So a
// worker that is root keeps its workspaces, while commands run as a user without rights.
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
	_ = cmd.Wait() // it was only needed to be there
	return ns, err
}

// ownedTree is a mount of a directory, attached nowhere yet, with the owners changed.
func ownedTree(idmap *os.File, dir string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	tree := os.NewFile(uintptr(fd), dir)
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(idmap.Fd()),
	})
	if err != nil {
		tree.Close()
		return nil, fmt.Errorf("mount %s with changed owners: %w", dir, err)
	}
	return tree, nil
}

func idmappable(idmap *os.File, dir string) bool {
	tree, err := ownedTree(idmap, dir)
	if err != nil {
		return false
	}
	tree.Close()
	return true
}

// trees are the workspace and the temporary directory for one child.
func (s *Sandbox) trees() ([]*os.File, error) {
	workspace, err := ownedTree(s.host.idmap, s.options.Workspace)
	if err != nil {
		return nil, err
	}
	temp, err := ownedTree(s.host.idmap, s.temp)
	if err != nil {
		return []*os.File{workspace}, err
	}
	return []*os.File{workspace, temp}, nil
}

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

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

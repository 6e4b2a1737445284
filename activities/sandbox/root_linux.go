package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// madeFiles are files of /etc that are written anew, so that they name nobody but the one user.
var madeFiles = map[string]string{
	"etc/passwd":        fmt.Sprintf("%s:x:%d:%d::/tmp/home:/bin/sh\n", user, innerID, innerID),
	"etc/group":         fmt.Sprintf("%s:x:%d:\n", user, innerID),
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
	"etc/hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"etc/hostname":      "sandbox\n",
	"etc/resolv.conf":   "",
}

var deviceNodes = []string{"null", "zero", "full", "random", "urandom"}

// shmSize bounds /dev/shm, in bytes; it is less where memory is limited to less.
const shmSize = 256 << 20

// enterRoot gives this process a root of its own with nothing but what a command may see. All that
// is taken from the host is opened first, as the worker's user; then the process becomes the user of
// the namespace and builds the root, which has to belong to that user.
func (s spec) enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	trees, links, err := s.hostTrees()
	if err != nil {
		return err
	}
	base, err := unix.Open(s.Temp, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if s.Switch {
		if err := becomeInner(); err != nil {
			return fmt.Errorf("become the sandbox's user: %w", err)
		}
	}
	root, err := newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "size=4m", "mode=755")
	if err != nil {
		return err
	}
	if err := unix.MoveMount(root, "", base, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := s.build(trees, links); err != nil {
		return err
	}
	if err := linkUp("lo"); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return pivot()
}

// becomeInner takes on the user and group of the namespace, and leaves all other groups.
func becomeInner() error {
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, innerID, innerID, innerID); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, innerID, innerID, innerID); e != 0 {
		return e
	}
	return nil
}

// build fills the new root, which is the current directory.
func (s spec) build(trees []tree, links map[string]string) error {
	for name, content := range madeFiles {
		if err := makeFile(name, content); err != nil {
			return err
		}
	}
	for _, dir := range []string{"proc", "dev/shm", "var/tmp", "run"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1", "dev/stderr": "/proc/self/fd/2",
	} {
		links[name] = target
	}
	for name, target := range links {
		if err := errors.Join(os.MkdirAll(path.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return fmt.Errorf("mount %s: %w", t.at, err)
		}
	}
	if err := s.mountParts(); err != nil {
		return err
	}
	return s.mountKernel()
}

func makeFile(name, content string) error {
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

// mountParts mounts the read-only parts of the workspace over themselves. They are found without
// following links, which an earlier command may have made.
func (s spec) mountParts() error {
	workspace, err := unix.Open(WorkspacePath[1:], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(workspace)
	for _, part := range s.ReadOnly {
		fd, err := unix.Openat2(workspace, filepath.Clean(part), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find read-only part %s: %w", part, err)
		}
		copied, err := cloneTree(fd, "", readOnly)
		if err != nil {
			return fmt.Errorf("read-only part %s: %w", part, err)
		}
		err = unix.MoveMount(copied, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		if err = errors.Join(err, unix.Close(copied), unix.Close(fd)); err != nil {
			return fmt.Errorf("mount read-only part %s: %w", part, err)
		}
	}
	return nil
}

// mountKernel mounts what the kernel makes. A container that hides parts of its /proc allows no new
// one; then commands have none.
func (s spec) mountKernel() error {
	size := int64(shmSize)
	if s.Limits.Memory > 0 {
		size = min(size, s.Limits.Memory/4)
	}
	shm, err := newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		fmt.Sprintf("size=%d", size), "nr_inodes=4096", "mode=1777")
	if err != nil {
		return err
	}
	if err := (tree{shm, "dev/shm"}).attach(); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	proc, err := newFilesystem("proc", readOnly|unix.MOUNT_ATTR_NOEXEC)
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := (tree{proc, "proc"}).attach(); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// newFilesystem makes a file system with options such as "size=1m", attached nowhere yet.
func newFilesystem(kind string, attributes int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("make a %s: %w", kind, err)
	}
	defer closeFD(fs)
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		if err := unix.FsconfigSetString(fs, name, value); err != nil {
			return 0, fmt.Errorf("make a %s with %s: %w", kind, option, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return 0, fmt.Errorf("make a %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return 0, fmt.Errorf("make a mount of a %s: %w", kind, err)
	}
	return fd, nil
}

// pivot makes the current directory the root, lets go of the old one and forbids changes.
func pivot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: readOnly}); err != nil {
		return fmt.Errorf("forbid changes to the root: %w", err)
	}
	return nil
}

// linkUp brings a network interface up.
func linkUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

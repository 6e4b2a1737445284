package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// madeFiles are files of /etc that are created for the sandbox, so that they list only its user.
var madeFiles = map[string]string{
	"etc/passwd":        fmt.Sprintf("%s:x:%d:%d::/tmp/home:/bin/sh\n", user, innerID, innerID),
	"etc/group":         fmt.Sprintf("%s:x:%d:\n", user, innerID),
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
	"etc/hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"etc/hostname":      "sandbox\n",
	"etc/resolv.conf":   "",
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// shmSize bounds the size of /dev/shm, in bytes, in addition to the memory limit.
const shmSize = 256 << 20

// enterRoot gives this process a new root. It opens the host's files as the worker's user, and
// builds the root as the namespace's user, who owns it.
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
	if err := s.buildRoot(trees, links); err != nil {
		return err
	}
	if err := linkUp("lo"); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return pivotRoot()
}

func becomeInner() error {
	for _, call := range []struct{ number, id uintptr }{
		{unix.SYS_SETGROUPS, 0}, {unix.SYS_SETRESGID, innerID}, {unix.SYS_SETRESUID, innerID},
	} {
		if _, _, e := unix.RawSyscall(call.number, call.id, call.id, call.id); e != 0 {
			return e
		}
	}
	return nil
}

func (s spec) buildRoot(trees []tree, links map[string]string) error {
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
		if err := t.attachMount(); err != nil {
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

// mountParts mounts the read-only parts over themselves. It does not follow links, which earlier
// commands may have created.
func (s spec) mountParts() error {
	workspace, err := unix.Open(workspacePath[1:], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
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

// mountKernel mounts /dev/shm and /proc. It omits /proc if the worker's container hides parts of
// its own.
func (s spec) mountKernel() error {
	shm, err := newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		fmt.Sprintf("size=%d", s.sharedSize()), "nr_inodes=4096", "mode=1777")
	if err != nil {
		return err
	}
	if err := (tree{shm, "dev/shm"}).attachMount(); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	proc, err := newFilesystem("proc", readOnly|unix.MOUNT_ATTR_NOEXEC)
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := (tree{proc, "proc"}).attachMount(); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func (s spec) sharedSize() int64 {
	if s.Limits.Memory > 0 {
		return min(shmSize, s.Limits.Memory/4)
	}
	return shmSize
}

// newFilesystem returns a detached file system with options such as "size=1m".
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

// pivotRoot makes the current directory the root, unmounts the old root and forbids changes to the new
// one.
func pivotRoot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: readOnly}); err != nil {
		return fmt.Errorf("forbid changes to the root: %w", err)
	}
	return nil
}

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

// systemDirs are mounted read-only if they exist. Links are recreated as links.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are patterns for the files of /etc that programs need and that contain no secrets.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
	"/etc/os-release", "/etc/debian_version", "/etc/locale.alias", "/etc/mime.types", "/etc/magic", "/etc/services",
	"/etc/protocols", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/etc/java-*-openjdk", "/etc/java", "/etc/python3*", "/etc/perl", "/etc/fonts",
	"/etc/terminfo", "/etc/ghc", "/etc/R", "/etc/php", "/etc/nix/path",
}

// readOnly are the attributes of all mounts except the workspace and the temporary directory.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// The mount points, in the new root, of the workspace and the temporary directory.
const (
	workspaceMount = "workspace"
	tempMount      = "tmp"
)

// tree is a detached mount.
type tree struct {
	fd int
	at string // mount point, relative to the new root
}

func (s spec) hostTrees() ([]tree, map[string]string, error) {
	trees, err := s.ownTrees() // first, since a toolchain may lie in the host's /tmp
	if err != nil {
		return nil, nil, err
	}
	links := map[string]string{}
	for _, name := range s.readablePaths() {
		if target, err := os.Readlink(name); err == nil {
			links[name[1:]] = target
			continue
		}
		fd, err := cloneTree(unix.AT_FDCWD, name, readOnly)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree{fd, name[1:]})
	}
	for _, name := range devices {
		fd, err := cloneTree(unix.AT_FDCWD, name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree{fd, name[1:]})
	}
	return trees, links, nil
}

// readablePaths returns the host's files and directories that commands can read. Some may not exist.
func (s spec) readablePaths() []string {
	all := append(existingSystemFiles(), systemDirs...)
	for _, dir := range s.Toolchains {
		if !strings.HasPrefix(dir, "/usr/") {
			all = append(all, dir)
		}
	}
	return all
}

func existingSystemFiles() []string {
	var all []string
	for _, pattern := range systemFiles {
		found, _ := filepath.Glob(pattern) // fails only for malformed patterns
		all = append(all, found...)
	}
	return all
}

func (s spec) ownTrees() ([]tree, error) {
	var trees []tree
	for i, at := range s.Trees {
		trees = append(trees, tree{treesFD + i, at})
	}
	own := map[string]string{workspaceMount: s.Workspace, tempMount: s.Temp}
	for _, c := range s.Caches {
		own[c.mountPoint()] = c.Dir
	}
	for at, dir := range own {
		if slices.Contains(s.Trees, at) {
			continue
		}
		fd, err := cloneTree(unix.AT_FDCWD, dir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree{fd, at})
	}
	slices.SortFunc(trees, func(a, b tree) int { return strings.Compare(a.at, b.at) }) // a cache may lie in another
	return trees, nil
}

// cloneTree returns a detached copy of a mount and all mounts below it, with additional attributes.
func cloneTree(at int, name string, attributes uint64) (int, error) {
	flags := uint(unix.AT_RECURSIVE)
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return copyMount(at, name, flags, unix.MountAttr{Attr_set: attributes})
}

// copyMount returns a detached copy of a mount with changed attributes. The flags are passed to
// open_tree.
func copyMount(at int, name string, flags uint, attributes unix.MountAttr) (int, error) {
	fd, err := unix.OpenTree(at, name, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("copy the mount of %s: %w", name, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags&unix.AT_RECURSIVE, &attributes); err != nil {
		closeFD(fd)
		return 0, fmt.Errorf("change the mount of %s: %w", name, err)
	}
	return fd, nil
}

// attachMount mounts the tree. It creates the mount point unless that is inside another mount.
func (t tree) attachMount() error {
	var st unix.Stat_t
	if err := unix.Fstat(t.fd, &st); err != nil {
		return err
	}
	if _, err := os.Lstat(t.at); err != nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = os.MkdirAll(t.at, 0o755)
		} else {
			err = makeFile(t.at, "")
		}
		if err != nil {
			return err
		}
	}
	err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return errors.Join(err, unix.Close(t.fd))
}

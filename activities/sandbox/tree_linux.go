package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs are shown read-only, where they exist. Links are made again as links.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are what programs need of /etc and holds no secrets; all else is not there. Patterns
// are those of filepath.Glob.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
	"/etc/os-release", "/etc/debian_version", "/etc/locale.alias", "/etc/mime.types", "/etc/magic", "/etc/services",
	"/etc/protocols", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/etc/java-*-openjdk", "/etc/java", "/etc/python3*", "/etc/perl", "/etc/fonts",
	"/etc/terminfo", "/etc/ghc", "/etc/R", "/etc/php", "/etc/nix/path",
}

// readOnly is how everything but the workspace and the temporary directory is mounted.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// tree is a mount that is attached nowhere yet.
type tree struct {
	fd int
	at string // where it belongs, relative to the new root
}

// hostTrees are the mounts of everything from the host, and the links that stand for some of it.
func (s spec) hostTrees() ([]tree, map[string]string, error) {
	links := map[string]string{}
	wanted := append([]string{}, systemDirs...)
	for _, pattern := range systemFiles {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, nil, err
		}
		wanted = append(wanted, found...)
	}
	for _, dir := range s.Toolchains {
		if !strings.HasPrefix(dir, "/usr/") {
			wanted = append(wanted, dir)
		}
	}
	trees, err := s.ownTrees() // first, since a toolchain may lie in the host's /tmp
	if err != nil {
		return nil, nil, err
	}
	for _, name := range wanted {
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
	for _, name := range deviceNodes {
		fd, err := cloneTree(unix.AT_FDCWD, "/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return nil, nil, err
		}
		trees = append(trees, tree{fd, "dev/" + name})
	}
	return trees, links, nil
}

// ownTrees are the mounts of the workspace and the temporary directory.
func (s spec) ownTrees() ([]tree, error) {
	if s.Trees {
		return []tree{{treesFD, WorkspacePath[1:]}, {treesFD + 1, "tmp"}}, nil
	}
	var trees []tree
	for at, dir := range map[string]string{WorkspacePath[1:]: s.Workspace, "tmp": s.Temp} {
		fd, err := cloneTree(unix.AT_FDCWD, dir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree{fd, at})
	}
	return trees, nil
}

// cloneTree copies a mount with all below it, and changes how it is mounted.
func cloneTree(at int, name string, attributes uint64) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(at, name, flags)
	if err != nil {
		return 0, fmt.Errorf("copy the mount of %s: %w", name, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return 0, fmt.Errorf("protect the mount of %s: %w", name, err)
	}
	return fd, nil
}

// attach puts a mount into its place. Where that lies in a directory that was mounted, there is
// nothing to be made: it has to be there.
func (t tree) attach() error {
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

package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights in Landlock rules. Those that the kernel's version does not support are masked out.
const (
	canRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	canRun   = canRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	canWrite = canRun | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	canUseDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// fileRights are the rights that a rule can grant for a file that is not a directory.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// harmlessProc lists files of the host's /proc that contain no information about other processes.
var harmlessProc = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
	"/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/random", "/proc/sys/kernel/ngroups_max",
	"/proc/sys/vm/overcommit_memory", "/proc/sys/fs/pipe-max-size", "/sys/devices/system/cpu",
}

func landlockVersion() int {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(version)
}

func handledRights(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// restrictPaths limits this thread and its future processes to the files that grantPaths allows.
func (s spec) restrictPaths() error {
	attr := handledRights(s.Landlock)
	if s.Level == Full {
		attr.Handled_access_net = 0 // the namespace confines the network
	}
	// Older kernels accept the longer structure if the fields that they do not know are zero.
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return fmt.Errorf("make a ruleset: %w", e)
	}
	defer closeFD(int(fd))
	allow := func(rights uint64, paths ...string) error {
		for _, path := range paths {
			if err := allowPath(int(fd), path, rights&attr.Handled_access_fs); err != nil {
				return fmt.Errorf("allow %s: %w", path, err)
			}
		}
		return nil
	}
	if err := s.grantPaths(allow); err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return e
	}
	return nil
}

// grantPaths adds the rules. At level full the root itself contains only readable files.
func (s spec) grantPaths(allow func(uint64, ...string) error) error {
	if s.Level == Full {
		return errors.Join(
			allow(canRun, "/"),
			allow(canWrite, workspacePath, "/tmp", "/dev/shm", "/"+cachesMount),
			allow(canUseDevice, devices...))
	}
	writable := []string{s.Workspace, s.Temp}
	for _, c := range s.Caches {
		writable = append(writable, c.Dir)
	}
	readable := append(append(existingSystemFiles(), "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"), harmlessProc...)
	return errors.Join(
		allow(canRun, systemDirs...),
		allow(canRun, s.Toolchains...),
		allow(canRead, readable...),
		allow(canUseDevice, devices...),
		allow(canWrite, writable...))
}

func allowPath(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

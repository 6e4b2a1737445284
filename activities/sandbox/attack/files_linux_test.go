package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileAttacks are further attacks on the content of the host's files.
func fileAttacks() []attack {
	return []attack{
		{name: "read_shadow", what: "open /etc/shadow for reading", setup: setupShadow, try: openShadow, proof: sameShadow},
		{
			name: "symlink_write", what: "write to a file beside the workspace through a symbolic link", proof: preyChanged,
			try: func(t target) (string, error) {
				if err := os.Symlink(t.Prey, "link"); err != nil {
					return "", err
				}
				return provenUnless(writeLine("link", os.O_WRONLY|os.O_APPEND))
			},
		},
		{
			name: "hardlink", what: "link a file beside the workspace into it", proof: hardLinked,
			try: func(t target) (string, error) { return provenUnless(os.Link(t.Secret, "hard")) },
		},
		{
			name: "rename_in", what: "move a file from beside the workspace into it", proof: preyGone,
			try: func(t target) (string, error) { return provenUnless(os.Rename(t.Prey, "moved")) },
		},
		{
			name: "make_outside", what: "make a directory, a FIFO or a link beside the workspace", proof: fileMade,
			try: func(t target) (string, error) {
				return either(
					func() (string, error) { return provenUnless(os.Mkdir(t.Outside+"/newdir", 0o700)) },
					func() (string, error) { return provenUnless(unix.Mkfifo(t.Outside+"/newfifo", 0o600)) },
					func() (string, error) { return provenUnless(os.Symlink("/", t.Outside+"/newlink")) })
			},
		},
		{
			name: "truncate_outside", what: "empty a file beside the workspace with truncate(2), which opens nothing", proof: preyChanged,
			try: func(t target) (string, error) {
				return either(
					func() (string, error) { return provenUnless(unix.Truncate(t.Prey, 0)) },
					func() (string, error) { return provenUnless(truncateReading(t.Prey)) })
			},
		},
		{
			name: "write_tmp", what: "make a file in the host's /tmp, /var/tmp or /dev/shm", proof: sharedFileMade,
			try: func(t target) (string, error) {
				var errs []error
				for _, dir := range sharedDirectories {
					errs = append(errs, writeLine(dir+"/conclave-"+t.Token, os.O_WRONLY|os.O_CREATE|os.O_EXCL))
				}
				return "", errors.Join(errs...)
			},
		},
		{
			name: "read_shm", what: "read shared memory of the host in /dev/shm", setup: setupShm, proof: secretStolen,
			try: func(t target) (string, error) { return lootFiles(t.Paths...) },
		},
		{
			name: "handle", what: "open a file of the host by its file handle, around all paths",
			setup: setupHandle, try: openHandle, proof: secretStolen,
		},
	}
}

var sharedDirectories = [...]string{"/tmp", "/var/tmp", "/dev/shm"}

func sharedFileMade(s *scene, _ trial) (evidence string) {
	for _, dir := range sharedDirectories {
		if os.Remove(dir+"/conclave-"+s.target.Token) == nil {
			evidence = "there was a file of the attacker in " + dir
		}
	}
	return evidence
}

func hardLinked(s *scene, _ trial) string {
	a, err1 := os.Stat(s.target.Secret)
	b, err2 := os.Stat(filepath.Join(s.workspace, "hard"))
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return "the host's file is in the workspace"
	}
	return ""
}

func preyGone(s *scene, _ trial) string {
	if _, err := os.Lstat(s.target.Prey); errors.Is(err, os.ErrNotExist) {
		return "the host's file is gone"
	}
	return ""
}

// truncateReading empties a file by opening it for reading: O_TRUNC needs no permission of Landlock
// before its version 3.
func truncateReading(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

const shadow = "/etc/shadow"

func setupShadow(*scene) error {
	if _, err := os.Stat(shadow); err != nil {
		return skipAttack("%v", err)
	}
	return nil
}

// openShadow reports which file it got, and reads nothing of it.
func openShadow(target) (string, error) {
	f, err := os.Open(shadow)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("no inode")
	}
	return strconv.FormatUint(st.Ino, 10), nil
}

func sameShadow(_ *scene, t trial) string {
	var st unix.Stat_t
	if err := unix.Stat(shadow, &st); err == nil && t.report.Proof == strconv.FormatUint(st.Ino, 10) {
		return "the host's /etc/shadow was open"
	}
	return ""
}

func setupShm(s *scene) error {
	f, err := os.CreateTemp("/dev/shm", "conclave-")
	if err != nil {
		return skipAttack("%v", err)
	}
	s.onClear(func() { os.Remove(f.Name()) }) //nolint:errcheck // the end of the scene
	s.target.Paths = []string{f.Name()}
	_, err = f.WriteString(s.secret)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

func setupHandle(s *scene) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.target.Secret, 0)
	if err != nil {
		return skipAttack("the file system has no file handles: %v", err)
	}
	s.target.Data, s.target.Number = h.Bytes(), int64(h.Type())
	return nil
}

// openHandle tries several directories as the mount of the handle.
func openHandle(t target) (string, error) {
	var errs []error
	for _, dir := range []string{".", "/", "/usr", "/etc", "/tmp"} {
		mount, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("open %s: %w", dir, err))
			continue
		}
		fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(int32(t.Number), t.Data), unix.O_RDONLY)
		if err != nil {
			errs = append(errs, fmt.Errorf("open_by_handle_at: %w", err))
			continue
		}
		data, err := readDescriptor(fd)
		if err != nil {
			return "", err
		}
		return findSecrets(data)
	}
	return "", errors.Join(errs...)
}

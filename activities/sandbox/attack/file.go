//go:build linux

package attack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// onFiles are attacks on what the host's files hold.
func onFiles() []attack {
	return []attack{
		{
			name: "read_hostfile", what: "read a file beside the workspace, by its path and by ..",
			try: func(t target) (string, error) {
				return lootFiles(t.Secret, "../outside/"+secretName, "/proc/self/cwd/../outside/"+secretName, "/proc/self/root"+t.Secret)
			},
			worked: stolen,
		},
		{name: "read_shadow", what: "open /etc/shadow for reading", plant: plantShadow, try: openShadow, worked: sameShadow},
		{
			name: "symlink_read", what: "read a file beside the workspace through a symbolic link",
			try: func(t target) (string, error) {
				if err := errors.Join(os.Symlink(t.Secret, "link"), os.Symlink(t.Outside, "dir")); err != nil {
					return "", err
				}
				return lootFiles("link", "dir/"+secretName)
			},
			worked: stolen,
		},
		{
			name: "symlink_write", what: "write to a file beside the workspace through a symbolic link",
			try: func(t target) (string, error) {
				if err := os.Symlink(t.Prey, "link"); err != nil {
					return "", err
				}
				return done(write("link", os.O_WRONLY|os.O_APPEND))
			},
			worked: preyChanged,
		},
		{
			name: "hardlink", what: "link a file beside the workspace into it",
			try: func(t target) (string, error) {
				return done(os.Link(t.Secret, "hard"))
			},
			worked: func(s *scene, t trial) string { return sameFile(s.target.Secret, filepath.Join(s.ws, "hard")) },
		},
		{
			name: "rename_in", what: "move a file from beside the workspace into it",
			try: func(t target) (string, error) { return done(os.Rename(t.Prey, "moved")) },
			worked: func(s *scene, _ trial) string {
				if _, err := os.Lstat(s.target.Prey); errors.Is(err, os.ErrNotExist) {
					return "the host's file is gone"
				}
				return ""
			},
		},
		{
			name: "delete_outside", what: "delete a file beside the workspace",
			try: func(t target) (string, error) { return done(os.Remove(t.Prey)) },
			worked: func(s *scene, _ trial) string {
				if _, err := os.Lstat(s.target.Prey); errors.Is(err, os.ErrNotExist) {
					return "the host's file is gone"
				}
				return ""
			},
		},
	}
}

// onMoreFiles are those that make or change files of the host.
func onMoreFiles() []attack {
	return []attack{
		{
			name: "write_outside", what: "make a file beside the workspace",
			try: func(t target) (string, error) {
				return either(
					func() (string, error) { return done(write(t.Outside+"/new", os.O_WRONLY|os.O_CREATE)) },
					func() (string, error) { return done(os.Mkdir(t.Outside+"/newdir", 0o700)) },
					func() (string, error) { return done(unix.Mkfifo(t.Outside+"/newfifo", 0o600)) },
					func() (string, error) { return done(os.Symlink("/", t.Outside+"/newlink")) },
				)
			},
			worked: func(s *scene, _ trial) string {
				if news := glob(s.target.Outside + "/new*"); len(news) > 0 {
					return "there is " + filepath.Base(news[0]) + " beside the workspace"
				}
				return ""
			},
		},
		{
			name: "overwrite_outside", what: "overwrite a file beside the workspace",
			try:    func(t target) (string, error) { return done(write(t.Prey, os.O_WRONLY)) },
			worked: preyChanged,
		},
		{
			name: "truncate_outside", what: "empty a file beside the workspace with truncate(2), which opens nothing",
			try: func(t target) (string, error) {
				return either(
					func() (string, error) { return done(unix.Truncate(t.Prey, 0)) },
					func() (string, error) { return done(truncateReading(t.Prey)) },
				)
			},
			worked: preyChanged,
		},
		{
			name: "write_tmp", what: "make a file in the host's /tmp, /var/tmp or /dev/shm",
			try: func(t target) (string, error) {
				var errs []error
				for _, dir := range sharedDirectories {
					errs = append(errs, write(dir+"/conclave-"+t.Token, os.O_WRONLY|os.O_CREATE|os.O_EXCL))
				}
				return "", errors.Join(errs...)
			},
			worked: func(s *scene, _ trial) (evidence string) {
				for _, dir := range sharedDirectories {
					if os.Remove(dir+"/conclave-"+s.target.Token) == nil {
						evidence = "there was a file of the attacker in " + dir
					}
				}
				return evidence
			},
		},
		{
			name: "read_shm", what: "read shared memory of the host in /dev/shm", plant: plantShm,
			try:    func(t target) (string, error) { return lootFiles(t.Name2) },
			worked: stolen,
		},
		{name: "handle", what: "open a file of the host by its file handle, around all paths", plant: plantHandle, try: openHandle, worked: stolen},
		{
			name: "peers_write", what: "change the answer of another agent in the workspace",
			known: "without a mount of its own it is only protected by its mode, which its owner can change",
			try:   changePeer, worked: peerChanged,
		},
	}
}

var sharedDirectories = [...]string{"/tmp", "/var/tmp", "/dev/shm"}

func write(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("The attacker was here.\n")
	return errors.Join(err, f.Close())
}

// truncateReading empties a file by opening it for reading: O_TRUNC needs no
// permission of Landlock before its version 3.
func truncateReading(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func preyChanged(s *scene, _ trial) string {
	if data, err := os.ReadFile(s.target.Prey); err != nil || string(data) != preyText {
		return "the host's file has changed"
	}
	return ""
}

func sameFile(one, other string) string {
	a, err1 := os.Stat(one)
	b, err2 := os.Stat(other)
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return "the host's file is in the workspace"
	}
	return ""
}

const shadow = "/etc/shadow"

func plantShadow(*scene) error {
	if _, err := os.Stat(shadow); err != nil {
		return skip("%v", err)
	}
	return nil
}

// openShadow says which file it got, and reads nothing of it.
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

func plantShm(s *scene) error {
	f, err := os.CreateTemp("/dev/shm", "conclave-")
	if err != nil {
		return skip("%v", err)
	}
	s.later(func() { os.Remove(f.Name()) }) //nolint:errcheck // the end of the scene
	s.target.Name2 = f.Name()
	_, err = f.WriteString(s.secret)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

func plantHandle(s *scene) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.target.Secret, 0)
	if err != nil {
		return skip("the file system has no file handles: %v", err)
	}
	s.target.Handle, s.target.Kind = h.Bytes(), h.Type()
	return nil
}

// openHandle tries it with every directory at hand as the mount.
func openHandle(t target) (string, error) {
	var errs []error
	for _, dir := range []string{".", "/", "/usr", "/etc", "/tmp"} {
		mount, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("open %s: %w", dir, err))
			continue
		}
		fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(t.Kind, t.Handle), unix.O_RDONLY)
		if err != nil {
			errs = append(errs, fmt.Errorf("open_by_handle_at: %w", err))
			continue
		}
		data, err := readDescriptor(fd)
		if err != nil {
			return "", err
		}
		return loot(data)
	}
	return "", errors.Join(errs...)
}

// changePeer tries every way to change a file below peers.
func changePeer(target) (string, error) {
	dir, file := peers+"/agent1", peers+"/agent1/"+preyName
	var errs []error
	for _, way := range []func() error{
		func() error { return os.Chmod(dir, 0o777) },
		func() error { return os.Chmod(file, 0o777) },
		func() error { return write(file, os.O_WRONLY|os.O_APPEND) },
		func() error { return write(dir+"/new", os.O_WRONLY|os.O_CREATE) },
		func() error { return os.Link(file, "mine") },
		func() error { return os.Remove(file) },
		func() error { return os.Rename(dir, "mine") },
		func() error { return os.Rename(peers, "mine") },
	} {
		errs = append(errs, way())
	}
	return "", errors.Join(errs...)
}

func peerChanged(s *scene, _ trial) string {
	dir := filepath.Join(s.ws, peers, "agent1")
	if sameFile(filepath.Join(dir, preyName), filepath.Join(s.ws, "mine")) != "" {
		return "the other agent's answer is a file of the workspace, too"
	}
	data, err := os.ReadFile(filepath.Join(dir, preyName))
	entries, _ := os.ReadDir(dir)
	info, bad := os.Stat(filepath.Join(dir, preyName))
	switch {
	case err != nil || bad != nil || len(entries) != 1 || !bytes.Equal(data, []byte(preyText)):
		return "the other agent's answer has changed"
	case info.Mode().Perm()&^preyMode != 0:
		return "the other agent's answer has another mode: " + strings.TrimPrefix(info.Mode().String(), "-")
	}
	return ""
}

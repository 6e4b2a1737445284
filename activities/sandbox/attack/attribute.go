//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The mode and time of the planted files.
const preyMode = 0o666

// noRule is why Landlock alone leaves attributes alone.
const noRule = "Landlock has no rule for it, and a filter of system calls cannot see which file is meant"

// onAttributes are attacks on what can be changed without opening a file.
func onAttributes() []attack {
	return []attack{
		{
			name: "chmod_outside", what: "change the mode of a file beside the workspace", known: noRule,
			try: func(t target) (string, error) { return done(os.Chmod(t.Prey, 0o751)) },
			worked: func(s *scene, _ trial) string {
				if info, err := os.Stat(s.target.Prey); err == nil && info.Mode().Perm() != preyMode {
					return "the host's file has the mode " + info.Mode().String()
				}
				return ""
			},
		},
		{
			name: "chown_outside", what: "change the group of a file beside the workspace", known: noRule,
			plant: plantGroups, try: changeGroup,
			worked: func(s *scene, _ trial) string {
				var st unix.Stat_t
				if err := unix.Stat(s.target.Prey, &st); err == nil && int(st.Gid) != os.Getegid() {
					return fmt.Sprintf("the host's file has the group %d", st.Gid)
				}
				return ""
			},
		},
		{
			name: "utime_outside", what: "change the time of a file beside the workspace", known: noRule,
			try: func(t target) (string, error) { return done(os.Chtimes(t.Prey, time.Time{}, time.Unix(1, 0))) },
			worked: func(s *scene, _ trial) string {
				if info, err := os.Stat(s.target.Prey); err == nil && info.ModTime().Year() < 2000 {
					return "the host's file is of " + info.ModTime().UTC().Format(time.DateOnly)
				}
				return ""
			},
		},
		{
			name: "xattr_outside", what: "give a file beside the workspace an extended attribute", known: noRule,
			plant: func(s *scene) error {
				if err := unix.Setxattr(s.target.Secret, "user.conclave", []byte("x"), 0); err != nil {
					return skip("the file system has no extended attributes: %v", err)
				}
				return nil
			},
			try: func(t target) (string, error) { return done(unix.Setxattr(t.Prey, "user.conclave", []byte("x"), 0)) },
			worked: func(s *scene, _ trial) string {
				if n, err := unix.Getxattr(s.target.Prey, "user.conclave", nil); err == nil && n > 0 {
					return "the host's file has the attribute"
				}
				return ""
			},
		},
	}
}

// onNames are attacks on what can be learned without reading a file.
func onNames() []attack {
	return []attack{
		{
			name: "stat_outside", what: "learn the size of a file beside the workspace", known: noRule,
			plant: func(s *scene) error {
				size := 1<<20 + int64(time.Now().Nanosecond())
				s.target.Number = 0 // the attacker is not told
				s.before = size
				return os.Truncate(s.target.Prey, size)
			},
			try: func(t target) (string, error) {
				info, err := os.Stat(t.Prey)
				if err != nil {
					return "", err
				}
				return strconv.FormatInt(info.Size(), 10), nil
			},
			worked: func(s *scene, t trial) string {
				if t.report.Proof == strconv.FormatInt(s.before, 10) {
					return "it knows the size"
				}
				return ""
			},
		},
		{
			name: "list_outside", what: "list a directory beside the workspace",
			plant: func(s *scene) error { return os.WriteFile(s.target.Outside+"/"+s.secret, nil, 0o600) },
			try: func(t target) (string, error) {
				entries, err := os.ReadDir(t.Outside)
				if err != nil {
					return "", err
				}
				var names []string
				for _, e := range entries {
					names = append(names, e.Name())
				}
				return strings.Join(names, " "), nil
			},
			worked: stolen,
		},
		{
			name: "watch_outside", what: "watch a directory beside the workspace with inotify", known: noRule,
			try: watchDirectory, during: func(s *scene) { _, _ = os.ReadFile(s.target.Secret) },
			worked: claimed,
		},
	}
}

func plantGroups(s *scene) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		groups = append(groups, 1)
	}
	for _, g := range groups {
		if g != os.Getegid() {
			s.target.Number = g
			return nil
		}
	}
	return skip("this user has only one group")
}

// changeGroup tries the host's number and that of the nobody group.
func changeGroup(t target) (string, error) {
	return done(errors.Join(os.Lchown(t.Prey, -1, t.Number)))
}

// watchDirectory waits for somebody of the host to open a file there.
func watchDirectory(t target) (string, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if _, err := unix.InotifyAddWatch(fd, t.Outside, unix.IN_OPEN|unix.IN_ACCESS); err != nil {
		return "", fmt.Errorf("inotify_add_watch: %w", err)
	}
	buf := make([]byte, 4096)
	for range 100 {
		if n, err := unix.Read(fd, buf); err == nil && n > 0 {
			return "it saw that a file of the host was opened", nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", errors.New("no event")
}

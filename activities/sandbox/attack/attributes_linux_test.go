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

// attributeAttacks are further attacks that open no file: on attributes, names and events.
func attributeAttacks() []attack {
	return []attack{
		{
			name: "chown_outside", what: "change the group of a file beside the workspace", known: noRule,
			setup: setupGroups, proof: groupChanged,
			try: func(t target) (string, error) { return provenUnless(os.Lchown(t.Prey, -1, int(t.Number))) },
		},
		{
			name: "utime_outside", what: "change the time of a file beside the workspace", known: noRule, proof: timeChanged,
			try: func(t target) (string, error) { return provenUnless(os.Chtimes(t.Prey, time.Time{}, time.Unix(1, 0))) },
		},
		{
			name: "xattr_outside", what: "give a file beside the workspace an extended attribute", known: noRule,
			setup: setupAttribute, proof: attributeSet,
			try: func(t target) (string, error) {
				return provenUnless(unix.Setxattr(t.Prey, attributeName, []byte("x"), 0))
			},
		},
		statSize(),
		{
			name: "list_outside", what: "list a directory beside the workspace", proof: secretStolen,
			setup: func(s *scene) error { return os.WriteFile(s.target.Outside+"/"+s.secret, nil, 0o600) },
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
		},
		{
			name: "watch_outside", what: "watch a directory beside the workspace with inotify", known: noRule,
			try: watchDirectory, observe: func(s *scene) { _, _ = os.ReadFile(s.target.Secret) }, proof: proofClaimed,
		},
	}
}

// statSize is stat_outside with a random size for proof.
func statSize() attack {
	var size int64
	return attack{
		name: "stat_outside_size", what: "learn the random size of a file beside the workspace",
		known: noRule,
		setup: func(s *scene) error {
			size = 1<<20 + int64(time.Now().Nanosecond())
			return os.Truncate(s.target.Prey, size)
		},
		try: func(t target) (string, error) {
			info, err := os.Stat(t.Prey)
			if err != nil {
				return "", err
			}
			return strconv.FormatInt(info.Size(), 10), nil
		},
		proof: func(_ *scene, t trial) string {
			if t.report.Proof == strconv.FormatInt(size, 10) {
				return "it knows the size"
			}
			return ""
		},
	}
}

func setupGroups(s *scene) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		groups = append(groups, 1)
	}
	for _, g := range groups {
		if g != os.Getegid() {
			s.target.Number = int64(g)
			return nil
		}
	}
	return skipAttack("this user has only one group")
}

func groupChanged(s *scene, _ trial) string {
	var st unix.Stat_t
	if err := unix.Stat(s.target.Prey, &st); err == nil && int(st.Gid) != os.Getegid() {
		return fmt.Sprintf("the host's file has the group %d", st.Gid)
	}
	return ""
}

func timeChanged(s *scene, _ trial) string {
	if info, err := os.Stat(s.target.Prey); err == nil && info.ModTime().Year() < 2000 {
		return "the host's file is of " + info.ModTime().UTC().Format(time.DateOnly)
	}
	return ""
}

const attributeName = "user.conclave"

func setupAttribute(s *scene) error {
	if err := unix.Setxattr(s.target.Secret, attributeName, []byte("x"), 0); err != nil {
		return skipAttack("the file system has no extended attributes: %v", err)
	}
	return nil
}

func attributeSet(s *scene, _ trial) string {
	if n, err := unix.Getxattr(s.target.Prey, attributeName, nil); err == nil && n > 0 {
		return "the host's file has the attribute"
	}
	return ""
}

// watchDirectory waits for a process of the host to open a file there.
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

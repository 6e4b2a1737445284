package material

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"conclave/engine/artifact"
)

// settings returns the settings of git for a directory, or none if it is in no repository or git
// is not installed.
func settings(ctx context.Context, dir string) artifact.Git {
	s := artifact.Git{Excludes: excludes(ctx, dir)}
	for name := range strings.SplitSeq(git(ctx, dir, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"), "\x00") {
		if name != "" {
			s.Tracked = append(s.Tracked, name)
		}
	}
	return s
}

// excludes returns the files, besides .gitignore, from which git reads ignore patterns for a
// directory: core.excludesFile, then the repository's info/exclude, which takes precedence. It
// returns nil if git is not installed.
func excludes(ctx context.Context, dir string) []string {
	own := git(ctx, dir, "rev-parse", "--git-path", "info/exclude")
	if own == "" {
		return nil
	}
	if !filepath.IsAbs(own) {
		own = filepath.Join(dir, own)
	}
	users := git(ctx, dir, "config", "--type=path", "--get", "core.excludesFile")
	if users == "" {
		users = defaultExcludes()
	}
	if !filepath.IsAbs(users) {
		users = filepath.Join(dir, users)
	}
	return []string{users, own}
}

// defaultExcludes returns the excludes file that git reads if core.excludesFile is not set.
func defaultExcludes() string {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, _ := os.UserHomeDir() // without one the file does not exist
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "git", "ignore")
}

// git returns the output of a git command on a directory, or "" if it fails. It starts in an empty
// directory. The configuration of a repository may name programs, which git does not start here.
func git(ctx context.Context, dir string, args ...string) string {
	dir, err := filepath.Abs(dir)
	empty, unmade := os.MkdirTemp("", "conclave-git-")
	if err != nil || unmade != nil {
		return ""
	}
	defer func() { _ = os.Remove(empty) }()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}, args...)...)
	cmd.Dir, cmd.Env = empty, append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

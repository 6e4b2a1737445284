package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
	"conclave/engine/text"
)

// Source is where the files are from which runs with the base source:NAME start, as they are then: a
// directory of the worker's host, or a Git repository.
type Source struct {
	Dir string `json:"dir,omitempty" path:"argument" doc:"A directory of the worker's host: an absolute path, or one that begins with ./ or ../ and is relative to this file. What .gitignore and .conclaveignore name, and files with secrets, are left out."`
	Git string `json:"git,omitempty" doc:"Address of a Git repository: https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH or an absolute path. It is read without hooks, submodules, filters and credential helpers; a private one by ssh, with a key of the worker's user."`
	Ref string `json:"ref,omitempty" doc:"The branch, tag or commit of the repository; by default its HEAD."`
}

var (
	// scpAddress matches USER@HOST:PATH.
	scpAddress = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]+$`)
	gitRef     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+-]{0,250}$`)
)

func checkSources(c *config.Decoder, sources map[string]Source) {
	for _, n := range slices.Sorted(maps.Keys(sources)) {
		key, s := c.Key("sources", n), sources[n]
		checkName(c, key, n, "source")
		switch {
		case (s.Dir == "") == (s.Git == ""):
			c.Report(key, "it takes either dir, a directory, or git, the address of a repository")
		case s.Dir != "" && !filepath.IsAbs(s.Dir):
			c.Report(key+".dir", "a relative path; begin it with ./ or ../, or give an absolute path")
		case s.Dir != "" && s.Ref != "":
			c.Report(key+".ref", "a directory has no branches; leave ref out, or give git in place of dir")
		case s.Git != "" && !validRepository(s.Git):
			c.Report(key+".git", "not the address of a repository (not shown, it could hold a password); it takes https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH or an absolute path, without a password")
		case s.Ref != "" && (!gitRef.MatchString(s.Ref) || strings.Contains(s.Ref, "..")):
			c.Report(key+".ref", "not the name of a branch or tag, and not a commit; it takes one such as main")
		}
	}
}

// validRepository reports whether git takes an address for that of a repository: for no option and for no program.
func validRepository(address string) bool {
	if filepath.IsAbs(address) {
		return true
	}
	if scpAddress.MatchString(address) {
		return true
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.HasPrefix(u.Hostname(), "-") {
		return false
	}
	_, password := u.User.Password()
	return u.Scheme == "ssh" && !password || (u.Scheme == "https" || u.Scheme == "http") && u.User == nil
}

// sources reads the sources of a worker.
type sources struct {
	named   map[string]Source
	store   artifact.Store
	scratch string // parent of temporary directories
	log     *slog.Logger
}

// readSource stores the present files of a source and returns their reference.
func (s sources) readSource(ctx context.Context, name string) (string, error) {
	source, found := s.named[name]
	if !found {
		return "", lackError(activities.NoSource, "this worker has no source %q; %s", name, listOthers(s.named, "it has none"))
	}
	upload := snapshot.Upload{Store: s.store, Dir: source.Dir, Now: time.Now}
	commit := ""
	if source.Git != "" {
		dir, err := os.MkdirTemp(s.scratch, "source-")
		if err != nil {
			return "", err
		}
		defer func() { _ = filelock.RemoveTree(dir) }()
		upload.Dir = filepath.Join(dir, "tree")
		if commit, upload.Git.Tracked, err = source.checkOut(ctx, dir); err != nil {
			return "", fmt.Errorf("read the source %s: %w", name, err)
		}
	}
	done, err := upload.Run(ctx)
	if err != nil {
		return "", fmt.Errorf("read the source %s: %w", name, err)
	}
	s.log.Info("a source was read", "source", name, "commit", commit, "base", snapshot.Reference(done.Hash), "files", done.Files,
		"secrets_left_out", len(done.Secrets), "others_left_out", len(done.LeftOut))
	return snapshot.Reference(done.Hash), nil
}

// checkOut writes the files of the repository to the directory tree in dir, which is empty. It returns
// the commit and the names of the files.
func (s Source) checkOut(ctx context.Context, dir string) (commit string, files []string, err error) {
	tree := filepath.Join(dir, "tree")
	ref := s.Ref
	if ref == "" {
		ref = "HEAD"
	}
	for _, args := range [][]string{
		{"init", "-q", "--template=", tree},
		{"-C", tree, "fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", s.Git, ref},
		{"-C", tree, "checkout", "-q", "--force", "--detach", "--no-recurse-submodules", "FETCH_HEAD"},
	} {
		if _, err := runGit(ctx, dir, args...); err != nil {
			return "", nil, err
		}
	}
	head, err := runGit(ctx, dir, "-C", tree, "rev-parse", "HEAD")
	if err != nil {
		return "", nil, err
	}
	listed, err := runGit(ctx, dir, "-C", tree, "ls-files", "-z")
	return strings.TrimSpace(string(head)), strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00"), err
}

// runGit runs git in an empty directory, which is its HOME, too: without the configuration, the credentials
// and the keys of the worker's environment. Its protocols are those that start no program of the address.
func runGit(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "credential.helper=", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "submodule.recurse=false", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60",
	}, args...)...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	cmd.Env = []string{
		"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true",
		"GIT_ALLOW_PROTOCOL=https:http:ssh:file", "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=20", "LC_ALL=C",
	}
	for _, name := range []string{"PATH", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("git is not installed on this worker's host")
	}
	if err != nil {
		return nil, fmt.Errorf("git: %w: %s", err, text.Truncate(text.OneLine(text.Sanitize(stderr.String())), 500))
	}
	return out, nil
}

package inputs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// An upload leaves out what git would: also by core.excludesFile and, in a linked worktree,
// by the info/exclude of the repository.
func TestUpload_excludesOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	home := t.TempDir()
	config := filepath.Join(home, "gitconfig")
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": config, "GIT_CONFIG_SYSTEM": os.DevNull, "HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "config")} {
		t.Setenv(name, value)
	}
	put := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
	put(config, "[user]\nname = n\nemail = e@example.com\n")
	put(filepath.Join(home, "config/git/ignore"), "*.usual\n")
	put(filepath.Join(home, "mine"), "*.mine\n")
	repository, linked := filepath.Join(home, "repository"), filepath.Join(home, "linked")
	run := func(args ...string) {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.Mkdir(repository, 0o755))
	run("init", "-q")
	run("commit", "-q", "--allow-empty", "-m", "first")
	run("worktree", "add", "-q", linked)
	put(filepath.Join(repository, ".git/info/exclude"), "*.own\n")
	outside := filepath.Join(home, "outside")
	for _, dir := range []string{repository, linked, outside} {
		for _, name := range []string{"a.usual", "a.mine", "a.own", "kept", "sub/b.mine"} {
			put(filepath.Join(dir, name), "x")
		}
	}
	conn, _ := connected(t)
	uploaded := func(dir string) (names []string) {
		done, err := Upload(t.Context(), conn.CLI, conn.Store, dir, false)
		require.NoError(t, err)
		b, err := snapshot.Open(t.Context(), conn.Store, done.Hash)
		require.NoError(t, err)
		for _, f := range b.Manifest().Files {
			names = append(names, f.Path)
		}
		return names
	}
	for _, dir := range []string{repository, linked} {
		require.Equal(t, []string{"a.mine", "kept", "sub/b.mine"}, uploaded(dir))
	}
	put(config, "[core]\nexcludesFile = ~/mine\n")
	require.Equal(t, []string{"a.usual", "kept"}, uploaded(linked), "core.excludesFile replaces the usual file")
	require.Equal(t, []string{"b.mine"}, uploaded(filepath.Join(outside, "sub")), "it is in no repository")
	run("add", "-f", "a.own", "sub/b.mine")
	require.Equal(t, []string{"a.own", "a.usual", "kept", "sub/b.mine"}, uploaded(repository), "tracked files travel")
	require.Equal(t, []string{"b.mine"}, uploaded(filepath.Join(repository, "sub")))
	_, _, err := artifact.Find(t.Context(), linked, artifact.Git{Excludes: []string{filepath.Join(home, "missing/file"), filepath.Join(home, "none")}})
	require.NoError(t, err)
}

// A directory from elsewhere may have a repository whose configuration names a program.
func TestSettings_startNoProgramOfTheRepository(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	marker, hook := filepath.Join(dir, "started"), filepath.Join(dir, "hook.sh")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch '"+marker+"'\n"), 0o700)) //nolint:gosec // git starts it
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("a\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-f", "a"}, {"config", "core.fsmonitor", hook}} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.Equal(t, []string{"a"}, gitSettings(t.Context(), dir).Tracked)
	require.NoFileExists(t, marker)
}

// What PATH finds as git may be a launcher that loads code from where it starts: that is never the
// directory of the base.
func TestGit_startsInAnEmptyDirectory(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\npwd\nls -A\necho $1 $2\n"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "json.py"), nil, 0o600))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Chdir(dir)
	out := strings.Split(gitOutput(t.Context(), ".", "ls-files"), "\n")
	require.Len(t, out, 2, "the directory is empty")
	require.NotEqual(t, dir, out[0])
	require.NoDirExists(t, out[0], "and is removed")
	require.Equal(t, "-C "+dir, out[1])
}

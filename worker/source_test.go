package worker

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// readSource returns the files of a source by their paths, the targets of links among them.
func readSource(t *testing.T, source Source) (map[string]string, error) {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	scratch := t.TempDir()
	reference, err := sources{map[string]Source{"site": source}, store, scratch, slog.New(slog.DiscardHandler)}.readSource(t.Context(), "site")
	left, _ := os.ReadDir(scratch)
	require.Empty(t, left, "nothing is left of a checkout")
	if err != nil {
		return nil, err
	}
	hash, err := snapshot.Parse(reference)
	require.NoError(t, err)
	base, err := snapshot.Open(t.Context(), store, hash)
	require.NoError(t, err)
	files := map[string]string{}
	for _, f := range base.Manifest().Files {
		files[f.Path] = f.Link
		if f.Link == "" && !f.Dir {
			data, err := base.ReadFile(t.Context(), f)
			require.NoError(t, err)
			files[f.Path] = string(data)
		}
	}
	return files, nil
}

// repository returns a repository made by commands of sh in it.
func repository(t *testing.T, commands string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-euc", "git init -q -b main . && git config user.name n && git config user.email e@example.com\n"+commands)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// A source is read as it is at that time, of the branch that is named.
func TestSource_git(t *testing.T) {
	t.Parallel()
	dir := repository(t, `echo one > a.txt; echo kept > x.log; echo '*.log' > .gitignore; mkdir sub; echo b > sub/b.txt; ln -s a.txt inside
printf 'AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY\n' > .env
git add -A; git add -f x.log .env; git commit -qm one; git tag v1; git checkout -qb next; echo two > a.txt; git commit -qam two; git checkout -q main`)
	files, err := readSource(t, Source{Git: dir})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.txt": "one\n", "x.log": "kept\n", ".gitignore": "*.log\n", "sub/b.txt": "b\n", "inside": "a.txt"}, files, "a tracked file counts although it is ignored, a secret does not")
	for ref, want := range map[string]string{"next": "two\n", "v1": "one\n", "refs/heads/next": "two\n"} {
		files, err := readSource(t, Source{Git: "file://" + dir, Ref: ref})
		require.NoError(t, err)
		require.Equal(t, want, files["a.txt"], ref)
	}
	_, err = readSource(t, Source{Git: dir, Ref: "missing"})
	require.ErrorContains(t, err, "read the source site: git:")
	require.ErrorContains(t, err, "missing")
	_, err = readSource(t, Source{Git: filepath.Join(dir, "none")})
	require.ErrorContains(t, err, "does not appear to be a git repository")
}

// A repository starts no program, reads nothing of the host, and brings no files from elsewhere; nor does the
// configuration of the worker's user.
func TestSource_hostileRepository(t *testing.T) {
	home := t.TempDir()
	marker, outside := filepath.Join(home, "started"), filepath.Join(home, "outside.txt")
	require.NoError(t, os.WriteFile(outside, []byte("of the host"), 0o600))
	evil := filepath.Join(home, "evil.sh")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\ntouch '"+marker+"'\ncat\n"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "template/hooks"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "template/hooks/post-checkout"), []byte("#!/bin/sh\ntouch '"+marker+"'\n"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[filter \"evil\"]\n\tsmudge = "+evil+"\n\trequired = true\n[core]\n\thooksPath = "+home+"/template/hooks\n\tfsmonitor = "+evil+
		"\n[init]\n\ttemplateDir = "+home+"/template\n[credential]\n\thelper = !"+evil+"\n[protocol \"ext\"]\n\tallow = always\n[submodule]\n\trecurse = true\n"), 0o600))
	other := repository(t, "echo of another > s.txt; git add -A; git commit -qm other")
	dir := repository(t, `echo a > a.txt; printf '* filter=evil\na.txt ident export-ignore\n' > .gitattributes
ln -s '`+outside+`' leads-out; ln -s ../../../etc/passwd climbs
git add -A; git -c protocol.file.allow=always submodule add -q '`+other+`' module; git commit -qm all
for h in post-checkout post-update pre-receive; do printf '#!/bin/sh\ntouch "`+marker+`"\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done
git config uploadpack.packObjectsHook '`+evil+`'`)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_SSH_COMMAND", evil)
	t.Setenv("SOME_API_KEY", "of-the-worker")
	files, err := readSource(t, Source{Git: dir})
	require.NoError(t, err)
	require.NoFileExists(t, marker)
	require.Equal(t, "a\n", files["a.txt"])
	for name := range files {
		require.NotContains(t, []string{"leads-out", "climbs", "module/s.txt"}, name)
	}
	_, err = readSource(t, Source{Git: "ext::sh -c " + evil}) // no configuration has it
	require.ErrorContains(t, err, "transport 'ext' not allowed")
	require.NoFileExists(t, marker)
	out, err := runGit(t.Context(), t.TempDir(), "-c", "alias.env=!env", "env")
	require.NoError(t, err)
	require.NotContains(t, string(out), "of-the-worker")
}

func TestSource_directory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.log"), []byte("b"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.log\n"), 0o600))
	files, err := readSource(t, Source{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.txt": "a", ".gitignore": "*.log\n"}, files)
	_, err = readSource(t, Source{Dir: filepath.Join(dir, "none")})
	require.ErrorIs(t, err, os.ErrNotExist)

	_, err = sources{named: map[string]Source{"site": {Dir: dir}}}.readSource(t.Context(), "sight")
	require.True(t, activities.Lacks(err, activities.NoSource))
	require.EqualError(t, err, `this worker has no source "sight"; it has: site`)
}

func TestValidRepository(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"https://example.com/a/b.git", "ssh://git@example.com:22/a", "git@example.com:a/b.git", "/srv/git/a"} {
		require.True(t, validRepository(good), good)
	}
	for _, bad := range []string{
		"-oProxyCommand=x", "--upload-pack=x", "ext::sh -c x", "fd::17", "file:///x/", "git@-host:a", "ssh://-oProxyCommand=x/a", "git://example.com/a", "a/b", "",
		"https://user:pass@example.com/a", "https://token@example.com/a", "ssh://u:p@example.com/a", "x@h::y", "https://",
	} {
		require.False(t, validRepository(bad), bad)
	}
	require.False(t, gitRef.MatchString("-x"))
	require.False(t, gitRef.MatchString("main:evil"))
	require.False(t, gitRef.MatchString("+main"))
	require.False(t, gitRef.MatchString(strings.Repeat("a", 300)))
}

package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
)

// mounted is a sandbox on an overlay with a read-only directory.
type mounted struct {
	*sandbox.Sandbox
	lower, seen string // the directory below the overlay; the overlay as this process sees it
}

func openMounted(t *testing.T, files map[string]string) *mounted {
	t.Helper()
	if host().Level != sandbox.Full {
		t.Skip("this machine does not give level full: ", host().Missing)
	}
	mounts, err := overlay.Open()
	if err != nil {
		t.Skip("this machine has no namespaces for this user: ", err)
	}
	t.Cleanup(mounts.Close)
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(home)) })
	at, lower := filepath.Join(home, "files"), filepath.Join(home, "lower")
	for _, dir := range []string{at, at + ".upper", at + ".work", lower} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	user, group := overlay.Owner()
	for name, content := range files {
		name = filepath.Join(lower, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
		require.NoError(t, os.Lchown(filepath.Dir(name), user, group))
		require.NoError(t, os.Lchown(name, user, group))
	}
	require.NoError(t, mounts.Overlay(lower, at+".upper", at+".work", at))
	m := &mounted{lower: lower, seen: mounts.Path(at)}
	require.NoError(t, os.Mkdir(filepath.Join(m.seen, "base"), 0o755))
	require.NoError(t, mounts.ReadOnly(lower, at, "base"))
	m.Sandbox, err = sandbox.Open(sandbox.Options{
		Workspace: m.seen, Temp: home, ReadOnly: []string{"base"}, Tree: mounts.Tree(m.seen), Level: sandbox.Full, Host: host(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func (m *mounted) sh(t *testing.T, script string) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	exit, err := m.Run(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	require.NoError(t, err, out.String())
	return exit, out.String()
}

// Commands and this process change the same files, whoever has written them, and leave those below
// the mount alone.
func TestTree_commandsChangeTheMount(t *testing.T) {
	t.Parallel()
	m := openMounted(t, map[string]string{"a": "lower", "dir/b": "lower", "dir/c": "lower"})
	require.NoError(t, os.MkdirAll(filepath.Join(m.seen, "made/deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(m.seen, "made/deep/f"), []byte("worker"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(m.seen, "a"), []byte("worker"), 0o644))
	exit, out := m.sh(t, `set -e
cat a made/deep/f
echo command > made/deep/f; echo command > made/deep/g; echo command > a; echo command > dir/b; rm dir/c; mv dir moved
cat base/dir/c
chmod 0700 made; ln -s a link; mkfifo pipe; cp -a base copy; echo command > copy/a`)
	require.Equal(t, sandbox.Exit{}, sandbox.Exit{Code: exit.Code, Signal: exit.Signal, Ended: exit.Ended}, out)
	require.Equal(t, "workerworkerlower", out)
	for name, want := range map[string]string{"made/deep/f": "command\n", "made/deep/g": "command\n", "a": "command\n", "moved/b": "command\n", "copy/a": "command\n", "copy/dir/b": "lower", "base/a": "lower"} {
		content, err := os.ReadFile(filepath.Join(m.seen, name))
		require.NoError(t, err)
		require.Equal(t, want, string(content), name)
	}
	require.NoFileExists(t, filepath.Join(m.seen, "dir/b"))
	require.NoError(t, os.WriteFile(filepath.Join(m.seen, "made/deep/g"), []byte("worker"), 0o644))
	for _, name := range []string{"a", "dir/b", "dir/c"} {
		content, err := os.ReadFile(filepath.Join(m.lower, name))
		require.NoError(t, err)
		require.Equal(t, "lower", string(content), name)
	}
}

// A command reaches neither the directories of the mount nor the process that holds it.
func TestTree_hidesItsParts(t *testing.T) {
	t.Parallel()
	m := openMounted(t, map[string]string{"a": "lower"})
	before, err := os.Stat(filepath.Join(m.lower, "a"))
	require.NoError(t, err)
	_, out := m.sh(t, `exec 2>/dev/null
for name in '`+m.lower+`' '`+m.seen+`' '`+filepath.Dir(m.lower)+`' /workspace/../lower; do
	test -e "$name" && echo "found $name"; done
echo x > base/a && echo "wrote to base"; rm -rf base/a && echo "removed from base"
mv base other && echo "moved base"; umount base && echo "unmounted base"; chmod 777 base/a && echo "changed base"
mount -o remount,rw /workspace/base && echo "remounted base"; ln base/a hard && echo "linked base"
touch base/a && echo "touched base"
for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done | grep ^conclave-m && echo "saw the holder"
ls -l /proc/self/fd | grep -e upper -e lower && echo "has a descriptor"; exit 0`)
	require.Empty(t, out)
	after, err := os.Stat(filepath.Join(m.lower, "a"))
	require.NoError(t, err)
	require.Equal(t, artifact.Identify(before), artifact.Identify(after))
}

func TestTree_needsLevelFull(t *testing.T) {
	t.Parallel()
	_, err := sandbox.Open(sandbox.Options{
		Workspace: t.TempDir(), Tree: func(int) (*os.File, error) { return nil, os.ErrInvalid }, Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Full},
	})
	require.ErrorContains(t, err, `needs level "full"`)
}

// A command has the caches that are open for it: at level full in /cache, elsewhere at their own paths, in a
// cache or not. What is not open for it cannot be reached, and all count toward the limit of the disk.
func TestCaches(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		dir := t.TempDir()
		cache := func(name, variable string) sandbox.Cache {
			c := sandbox.Cache{Name: name, Variable: variable, Dir: filepath.Join(dir, filepath.Base(name))}
			require.NoError(t, os.Mkdir(c.Dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "own"), []byte(name), 0o644))
			return c
		}
		outer, inner, other := cache("outer", "OUTER"), cache("outer/inner", ""), cache("other", "OTHER")
		b := openBox(t, level, func(o *sandbox.Options) {
			o.Limits.Disk = 1 << 20
			o.Caches = sandbox.Caches{Dir: dir, Open: func(_ context.Context, args []string) []sandbox.Cache {
				if args[len(args)-1] == "none" {
					return nil
				}
				return []sandbox.Cache{inner, outer}
			}}
		})
		run := func(script string) (sandbox.Exit, string) {
			var out bytes.Buffer
			exit, err := b.Run(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", script, outer.Dir, other.Dir}, Stdout: &out, Stderr: &out})
			require.NoError(t, err)
			return exit, out.String()
		}
		exit, out := run(`echo made > $OUTER/made && cat $OUTER/own && test -z "$OTHER" && ! cat "$1/own" /cache/other/own 2>/dev/null`)
		require.Zero(t, exit.Code, out)
		require.Equal(t, "outer", out)
		content, err := os.ReadFile(filepath.Join(outer.Dir, "made"))
		require.NoError(t, err)
		require.Equal(t, "made\n", string(content))
		if level == sandbox.Full {
			_, out = run(`echo $OUTER; cat $OUTER/inner/own; ls /cache; touch /cache/new 2>/dev/null || echo refused`)
			require.Equal(t, "/cache/outer\nouter/innerouter\nrefused\n", out)
		}
		exit, _ = run(`cp /bin/sh $OUTER/sh && chmod 6755 $OUTER/sh; head -c 2000000 /dev/zero > $OUTER/big`)
		require.Equal(t, "disk", exit.Ended)
		exit, err = b.Run(t.Context(), sandbox.Command{Args: []string{"/bin/sh", "-c", `test -z "$OUTER" && test ! -e /cache && ! cat "$1/own"`, outer.Dir, "none"}})
		require.NoError(t, err)
		require.Zero(t, exit.Code)
	})
}

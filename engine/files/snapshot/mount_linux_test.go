package snapshot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
)

// TestMain lets this binary hold mounts.
func TestMain(m *testing.M) {
	overlay.RunHolder()
	os.Exit(m.Run())
}

func openMounts(t *testing.T) *overlay.Mounts {
	t.Helper()
	mounts, err := overlay.Open()
	if err != nil {
		t.Skip("this machine has no namespaces for this user: ", err)
	}
	t.Cleanup(mounts.Close)
	return mounts
}

// mount mounts the base and waits until all later changes can be detected.
func (l *lender) mount(mounts *overlay.Mounts) *snapshot.Loan {
	l.t.Helper()
	l.lent++
	loan, err := l.trees.Mount(l.t.Context(), mounts, l.base, filepath.Join(l.home, fmt.Sprintf("work%d", l.lent)))
	require.NoError(l.t, err)
	require.Eventually(l.t, func() bool { return snapshot.Settle(loan) }, time.Minute, time.Millisecond)
	return loan
}

// Whatever changes a step makes in a mount, the next one gets the base, and so do copies.
func TestMount_changesAreGone(t *testing.T) {
	t.Parallel()
	l, mounts := newLender(t), openMounts(t)
	for n := range damages {
		loan := l.mount(mounts)
		l.requireBase(loan.Dir(), false)
		for _, at := range []int{n, (n + 3) % len(damages), (n + 7) % len(damages)} {
			_ = damages[at](loan.Dir()) // an earlier one may prevent it
		}
		require.NoError(t, loan.Intact())
		require.NoError(t, loan.GiveBack(t.Context(), l.home))
	}
	_, dir := l.lend(false)
	l.requireBase(dir, false)
}

// The files of a mount have the identities that the loan states.
func TestMount_identities(t *testing.T) {
	t.Parallel()
	l, mounts := newLender(t), openMounts(t)
	loan := l.mount(mounts)
	change := func() artifact.Delta {
		w := artifact.OpenWorkingCopy(l.store, artifact.InBucket("s").On(l.base), loan.Dir(), "")
		w.Track(loan.Identity, loan.Lent())
		delta, err := w.Scan(t.Context())
		require.NoError(t, err)
		return delta
	}
	for _, f := range l.base.Manifest().Files {
		if f.Dir {
			continue
		}
		info, err := os.Lstat(filepath.Join(loan.Dir(), f.Path))
		require.NoError(t, err)
		require.Equal(t, loan.Identity(f.Path), artifact.Identify(info), f.Path)
	}
	require.Empty(t, change())
	old, err := os.Stat(filepath.Join(loan.Dir(), "main.go"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(loan.Dir(), "main.go"), []byte("package niam\n"), 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(loan.Dir(), "main.go"), old.ModTime(), old.ModTime()))
	require.NoError(t, os.Rename(filepath.Join(loan.Dir(), "many/1"), filepath.Join(loan.Dir(), "many/new")))
	delta := change()
	require.Len(t, delta.Changed, 2)
	require.Equal(t, []string{"many/1"}, []string(delta.Removed))
}

// A directory in a mount shows another base, which nobody can change, and follows no links.
func TestMountIn(t *testing.T) {
	t.Parallel()
	l, mounts := newLender(t), openMounts(t)
	whole := l.mount(mounts)
	shown, err := l.trees.MountIn(t.Context(), whole, l.base, "base")
	require.NoError(t, err)
	l.requireBase(shown.Dir(), false)
	require.True(t, shown.InPlace())
	for n, damage := range damages[:len(damages)-1] {
		if err := damage(shown.Dir()); err == nil {
			require.Contains(t, []int{7, 10}, n, "these only do nothing") // no such file to rename, nothing to remove
		}
	}
	l.requireBase(shown.Dir(), false)
	require.NoError(t, whole.Intact())
	require.NoError(t, os.Rename(shown.Dir(), shown.Dir()+"-moved"))
	require.False(t, shown.InPlace())
	require.NoError(t, shown.GiveBack(t.Context(), ""))
	left, err := os.ReadDir(whole.Dir() + "/base-moved")
	require.NoError(t, err)
	require.Empty(t, left)

	outside := tempDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(outside, "base"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(whole.Dir(), "away")))
	require.Error(t, mounts.ReadOnly(outside, filepath.Join(l.home, "work1"), "away/base"))
	require.NoError(t, whole.GiveBack(t.Context(), ""))
}

// If a base cannot be mounted, the directory of a mount gets a copy.
func TestMountIn_copies(t *testing.T) {
	t.Parallel()
	l, mounts := newLender(t), openMounts(t)
	whole, other := l.mount(mounts), tempDir(t)
	write(t, other, map[string]string{"guide": "Read me."})
	b, err := l.trees.Open(t.Context(), upload(t, snapshot.Upload{Store: l.store, Dir: other}).Hash)
	require.NoError(t, err)
	require.NoError(t, l.trees.Place(t.Context(), b, filepath.Join(l.home, "placed")))
	write(t, filepath.Join(l.dir, b.Hash()), map[string]string{"extra": "x"})
	shown, err := l.trees.MountIn(t.Context(), whole, b, "guides")
	require.NoError(t, err)
	require.True(t, shown.InPlace())
	require.Equal(t, snapshotOf(t, other), snapshotOf(t, shown.Dir()))
	write(t, shown.Dir(), map[string]string{"changed": "x"})
	require.NoError(t, shown.GiveBack(t.Context(), ""))
	require.NoError(t, shown.Intact(), "a copy does not depend on the unpacked base")
}

// A tree that was damaged is not mounted. The next mount gets a new tree.
func TestMount_damagedTrees(t *testing.T) {
	t.Parallel()
	mounts := openMounts(t)
	for name, damage := range map[string]func(tree string) error{
		"a file more":  func(tree string) error { return os.WriteFile(filepath.Join(tree, "new"), nil, 0o644) },
		"a file less":  func(tree string) error { return os.Remove(filepath.Join(tree, "main.go")) },
		"another size": func(tree string) error { return os.WriteFile(filepath.Join(tree, "main.go"), []byte("x"), 0o644) },
		"another mode": func(tree string) error { return os.Chmod(filepath.Join(tree, "main.go"), 0o755) },
		"a directory":  func(tree string) error { return os.Mkdir(filepath.Join(tree, "another"), 0o755) },
		"none":         func(tree string) error { return os.Remove(filepath.Join(tree, "hollow")) },
		"another kind": func(tree string) error {
			return errors.Join(os.Remove(filepath.Join(tree, "main.go")), os.Symlink("x", filepath.Join(tree, "main.go")))
		},
		"another target": func(tree string) error {
			return errors.Join(os.Remove(filepath.Join(tree, "link")), os.Symlink("elsewhere/x", filepath.Join(tree, "link")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLender(t)
			require.NoError(t, l.mount(mounts).GiveBack(t.Context(), ""))
			require.NoError(t, damage(filepath.Join(l.dir, l.base.Hash())))
			dir := filepath.Join(l.home, "work")
			_, err := l.trees.Mount(t.Context(), mounts, l.base, dir)
			require.ErrorContains(t, err, "have been changed")
			left, err := filepath.Glob(dir + "*")
			require.NoError(t, err)
			require.Len(t, left, 3, "those of the first mount") // work1 and the directories beside it
			loan := l.mount(mounts)
			l.requireBase(loan.Dir(), false)
			require.NoError(t, loan.GiveBack(t.Context(), ""))
		})
	}
}

// A tree that is mounted is not removed to make room, nor because it was damaged.
func TestMount_keepsTheTree(t *testing.T) {
	t.Parallel()
	l, mounts := newLender(t), openMounts(t)
	loan := l.mount(mounts)
	other := project(t)
	write(t, other, map[string]string{"another": "base"})
	b, err := snapshot.Open(t.Context(), l.store, upload(t, snapshot.Upload{Store: l.store, Dir: other}).Hash)
	require.NoError(t, err)
	small := snapshot.NewTrees(l.store, l.dir, 1) // of another process
	tree := filepath.Join(l.dir, l.base.Hash())
	require.NoError(t, small.Place(t.Context(), b, filepath.Join(l.home, "other")))
	require.DirExists(t, tree)
	require.NoError(t, loan.GiveBack(t.Context(), ""))
	require.NoError(t, filelock.RemoveTree(filepath.Join(l.dir, b.Hash())))
	require.NoError(t, small.Place(t.Context(), b, filepath.Join(l.home, "third")))
	require.NoDirExists(t, tree)
}

// The tree of another user keeps its owner, so that this user can go on using it.
func TestMount_treeOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a tree of another user")
	}
	l, mounts := newLender(t), openMounts(t)
	l.lend(false)
	tree := filepath.Join(l.dir, l.base.Hash())
	require.NoError(t, filepath.WalkDir(tree, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, 1234, 1234))
	}))
	_, err := l.trees.Mount(t.Context(), mounts, l.base, filepath.Join(l.home, "mount"))
	require.ErrorContains(t, err, "belong to another user")
	info, err := os.Stat(filepath.Join(tree, "main.go"))
	require.NoError(t, err)
	require.EqualValues(t, 1234, info.Sys().(*syscall.Stat_t).Uid)
}

// become changes the files of a directory to those of a tree, as an agent would: it renames the
// ones that have moved, and sometimes removes and makes whole directories.
func (t tree) become(tb require.TestingT, dir string) {
	now := treeOf(tb, dir)
	for name := range now {
		if moved := name + ".moved"; t[moved] != "" && t[name] == "" && now[name] == t[moved] && now[name][:1] != folder {
			require.NoError(tb, os.Rename(filepath.Join(dir, name), filepath.Join(dir, moved)))
		}
	}
	var dirs []string
	require.NoError(tb, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		require.NoError(tb, err)
		name, err := filepath.Rel(dir, at)
		require.NoError(tb, err)
		if t[name] == "" && !d.IsDir() {
			return os.Remove(at)
		}
		if d.IsDir() && name != "." {
			dirs = append(dirs, at)
		}
		return nil
	}))
	for _, at := range slices.Backward(dirs) {
		_ = os.Remove(at) // unless it has files
	}
	for name, entry := range treeOf(tb, dir) {
		if t[name] == entry {
			continue
		}
		require.NoError(tb, os.RemoveAll(filepath.Join(dir, name)))
	}
	left := treeOf(tb, dir)
	rest := tree{}
	for name, entry := range t {
		if left[name] == "" {
			rest[name] = entry
		}
	}
	rest.place(tb, dir)
}

// Any tree is unchanged on its way from base through a mounted step to apply.
func TestRoundTrip_throughMounts(t *testing.T) {
	t.Parallel()
	mounts := openMounts(t)
	home, store, runs := tempDir(t), openStore(t), 0
	trees := snapshot.NewTrees(store, filepath.Join(home, "trees"), 1<<30)
	rapid.Check(t, func(t *rapid.T) {
		if runs == 30 { // each writes a store
			return
		}
		from, to := anyChange(t)
		runs++
		dir := func(name string) string { return filepath.Join(home, fmt.Sprint(runs), name) }
		require.NoError(t, os.MkdirAll(dir("base"), 0o755))
		from.place(t, dir("base"))
		up, err := snapshot.Upload{Store: store, Dir: dir("base"), Now: time.Now}.Run(t.Context())
		require.NoError(t, err)
		b, err := trees.Open(t.Context(), up.Hash)
		require.NoError(t, err)
		loan, err := trees.Mount(t.Context(), mounts, b, dir("step"))
		require.NoError(t, err)
		require.Equal(t, from, treeOf(t, loan.Dir()))
		to.become(t, loan.Dir())
		require.Equal(t, to, treeOf(t, loan.Dir()))
		layout := artifact.InBucket(fmt.Sprint(runs)).On(b)
		w := artifact.OpenWorkingCopy(store, layout, loan.Dir(), home)
		w.Track(loan.Identity, loan.Lent())
		_, hash, err := w.Seal(t.Context())
		require.NoError(t, err)
		require.NoError(t, loan.Intact())
		require.NoError(t, loan.GiveBack(t.Context(), ""))
		applied(t.Context(), t, store, layout, hash, dir("base"))
		require.Equal(t, to, treeOf(t, dir("base")))
	})
}

// A directory that is not a base is made once, belongs to the owner that mounts require, and stays while
// somebody uses it.
func TestKeep(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), tempDir(t)
	trees := snapshot.NewTrees(store, dir, 1)
	hash := func(n int) string { return artifact.SumOf([]byte{byte(n)}) }
	_, _, err := trees.Keep(hash(1), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	made := 0
	fill := func(dir string) error {
		made++
		return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
	}
	_, _, err = trees.Keep(hash(1), func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), errors.New("half")) })
	require.ErrorContains(t, err, "half")
	first, letGo, err := trees.Keep(hash(1), fill)
	require.NoError(t, err)
	again, letGoAgain, err := trees.Keep(hash(1), nil)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, made)
	info, err := os.Stat(filepath.Join(first, "file"))
	require.NoError(t, err)
	require.True(t, snapshot.HasOwner(info))
	letGo()
	for n := range 2 {
		_, free, err := trees.Keep(hash(2+n), fill)
		require.NoError(t, err)
		free()
	}
	require.FileExists(t, filepath.Join(first, "file"), "it is used")
	letGoAgain()
	_, free, err := trees.Keep(hash(4), fill)
	require.NoError(t, err)
	free()
	require.NoDirExists(t, first, "the directory is too small for it")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

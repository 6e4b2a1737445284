package snapshot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
)

// lender lends a base with awkward names to workspaces.
type lender struct {
	t     *testing.T
	trees *snapshot.Trees
	base  *artifact.Base
	store artifact.Store
	dir   string // of the trees
	home  string // of workspaces and spares
	lent  int
	want  map[string]string // snapshot of the base
}

// tempDir returns a directory that is removed with the read-only copies in it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(dir)) })
	return dir
}

func newLender(t *testing.T) *lender {
	t.Helper()
	store, dir := openStore(t), project(t)
	for i := range 80 {
		write(t, dir, map[string]string{fmt.Sprintf("many/%d", i): fmt.Sprint(i)})
	}
	kept := tempDir(t)
	trees := snapshot.NewTrees(store, kept, 1<<30)
	b, err := trees.Open(t.Context(), upload(t, snapshot.Upload{Store: store, Dir: dir}).Hash)
	require.NoError(t, err)
	return &lender{t: t, trees: trees, base: b, store: store, dir: kept, home: tempDir(t), want: snapshotOf(t, dir)}
}

// A damaged tree that cannot be removed does not prevent a copy.
func TestPlace_unremovableTree(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root can remove every tree")
	}
	l := newLender(t)
	l.lend(false)
	require.NoError(t, os.Remove(filepath.Join(l.dir, l.base.Hash(), "main.go")))
	require.NoError(t, os.Chmod(l.dir, 0o500))
	t.Cleanup(func() { require.NoError(t, os.Chmod(l.dir, 0o700)) })
	placed := filepath.Join(l.home, "placed")
	require.NoError(t, l.trees.Place(t.Context(), l.base, placed))
	l.requireBase(placed, false)
}

// lend returns a copy and its directory after all later changes can be detected.
func (l *lender) lend(readOnly bool) (*snapshot.Loan, string) {
	l.t.Helper()
	l.lent++
	dir := filepath.Join(l.home, fmt.Sprintf("work%d", l.lent))
	loan, err := l.trees.Lend(l.t.Context(), l.base, dir, readOnly)
	require.NoError(l.t, err)
	require.Eventually(l.t, func() bool { return snapshot.Settle(loan) }, time.Minute, time.Millisecond)
	return loan, dir
}

// requireBase requires that a directory contains exactly the files of the base.
func (l *lender) requireBase(dir string, readOnly bool) {
	l.t.Helper()
	found := snapshotOf(l.t, dir)
	if readOnly {
		for name, is := range found {
			mode, _, _ := strings.Cut(is, " ")
			require.True(l.t, mode[0] == 'L' || !strings.Contains(mode, "w"), name)
		}
		require.Len(l.t, found, len(l.want))
		return
	}
	require.Equal(l.t, l.want, found)
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	info, err := os.Lstat(name)
	require.NoError(t, err)
	return artifact.Identify(info).Inode
}

// damages are changes that a step can make.
var damages = []func(dir string) error{
	func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "main.go"), []byte("package niam\n"), 0o644)
	},
	func(dir string) error { return os.WriteFile(filepath.Join(dir, ".hidden"), []byte("left"), 0o644) },
	func(dir string) error { return os.Chmod(filepath.Join(dir, "docs/b.md"), 0o600) },
	func(dir string) error { return os.Remove(filepath.Join(dir, "link")) },
	func(dir string) error { return os.RemoveAll(filepath.Join(dir, "docs")) },
	func(dir string) error { return os.Remove(filepath.Join(dir, "hollow")) },
	func(dir string) error { return os.MkdirAll(filepath.Join(dir, "hollow/x/y"), 0o755) },
	func(dir string) error { return os.Rename(filepath.Join(dir, "many/1"), filepath.Join(dir, "many/2")) },
	func(dir string) error { return os.Link(filepath.Join(dir, "many/3"), filepath.Join(dir, "many/other")) },
	func(dir string) error { return os.Chmod(filepath.Join(dir, "many"), 0o500) },
	func(dir string) error {
		name := filepath.Join(dir, "many/4")
		old := time.Unix(1, 0)
		return os.Chtimes(name, old, old)
	},
	func(dir string) error {
		_ = os.Remove(filepath.Join(dir, "many/5"))
		return os.Symlink("/etc/passwd", filepath.Join(dir, "many/5"))
	},
	func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600) },
}

// Whatever changes a step makes, the next one gets the base, and most files are not copied again.
func TestLend_restoresTheBase(t *testing.T) {
	t.Parallel()
	l := newLender(t)
	random := rand.New(rand.NewPCG(1, 2))
	loan, dir := l.lend(false)
	l.requireBase(dir, false)
	kept := inode(t, filepath.Join(dir, "many/79"))
	for range 30 {
		for _, at := range random.Perm(len(damages))[:3] {
			_ = damages[at](dir) // an earlier one may prevent it
		}
		require.NoError(t, loan.GiveBack(t.Context(), l.home))
		loan, dir = l.lend(false)
		l.requireBase(dir, false)
		require.Equal(t, kept, inode(t, filepath.Join(dir, "many/79")), "the file is the same")
	}
}

// A read-only copy is restored before it is lent again.
func TestLend_readOnly(t *testing.T) {
	t.Parallel()
	l := newLender(t)
	loan, dir := l.lend(true)
	l.requireBase(dir, true)
	kept := inode(t, filepath.Join(dir, "many/79"))
	require.NoError(t, os.Chmod(filepath.Join(dir, "docs"), 0o755))
	require.NoError(t, os.Remove(filepath.Join(dir, "docs/b.md")))
	require.NoError(t, os.Chmod(filepath.Join(dir, "main.go"), 0o644))
	require.NoError(t, loan.GiveBack(t.Context(), l.home))

	other, writable := l.lend(false)
	l.requireBase(writable, false)
	require.NotEqual(t, kept, inode(t, filepath.Join(writable, "many/79")), "a read-only copy stays one")
	loan, dir = l.lend(true)
	l.requireBase(dir, true)
	require.Equal(t, kept, inode(t, filepath.Join(dir, "many/79")))
	require.NoError(t, loan.GiveBack(t.Context(), ""))
	require.NoDirExists(t, dir, "without a directory for it the copy is removed")
	require.NoError(t, other.GiveBack(t.Context(), l.home))
}

// Copies with too many changes and copies beyond the limits are removed.
func TestLend_removes(t *testing.T) {
	t.Parallel()
	l := newLender(t)
	loan, dir := l.lend(false)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "many")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "docs")))
	require.NoError(t, loan.GiveBack(t.Context(), l.home))
	require.NoDirExists(t, dir)
	spares := func() []string {
		found, err := filepath.Glob(filepath.Join(l.home, "conclave-spare-*"))
		require.NoError(t, err)
		return found
	}
	require.Empty(t, spares())

	var loans []*snapshot.Loan
	for range 27 {
		loan, _ := l.lend(false)
		loans = append(loans, loan)
	}
	for _, loan := range loans {
		require.NoError(t, loan.GiveBack(t.Context(), l.home))
	}
	require.Len(t, spares(), 24)
}

// Without a base, Lend returns an empty directory.
func TestLend_withoutABase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "work")
	loan, err := snapshot.NewTrees(openStore(t), "", 0).Lend(t.Context(), nil, dir, false)
	require.NoError(t, err)
	require.DirExists(t, dir)
	require.NoError(t, loan.GiveBack(t.Context(), tempDir(t)))
	require.NoDirExists(t, dir)
}

// If a link to another directory has replaced the copy, both are left unchanged.
func TestLend_replaced(t *testing.T) {
	t.Parallel()
	l := newLender(t)
	victim := tempDir(t)
	write(t, victim, map[string]string{"precious": "x"})
	for _, parent := range []string{"", l.home} {
		loan, dir := l.lend(true)
		require.NoError(t, os.Rename(dir, dir+"-moved"))
		require.NoError(t, os.Symlink(victim, dir))
		require.NoError(t, loan.GiveBack(t.Context(), parent))
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.Mkdir(dir, 0o755))
		write(t, dir, map[string]string{"other": "x"})
		require.NoError(t, loan.GiveBack(t.Context(), parent))
		require.FileExists(t, filepath.Join(dir, "other"))
	}
	require.FileExists(t, filepath.Join(victim, "precious"))
}

// An answer of many files is written once for the steps that see it. Whatever a step did to it,
// the next one sees the answer.
func TestLendAnswer(t *testing.T) {
	t.Parallel()
	l, source := newLender(t), project(t)
	for i := range 80 {
		write(t, source, map[string]string{fmt.Sprintf("many/%d", i): fmt.Sprint(i)})
	}
	change, hash, err := artifact.OpenWorkingCopy(l.store, artifact.Layout{}, source, "").Seal(t.Context())
	require.NoError(t, err)
	lend := func(n int) (*snapshot.Loan, string) {
		dir := filepath.Join(l.home, fmt.Sprintf("answer%d", n))
		loan, err := l.trees.LendAnswer(t.Context(), l.store, artifact.Layout{}, hash, change, dir)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return snapshot.Settle(loan) }, time.Minute, time.Millisecond)
		return loan, dir
	}
	loan, dir := lend(0)
	want, kept := snapshotOf(t, dir), inode(t, filepath.Join(dir, "many/79"))
	for n, damage := range damages {
		moved := dir + "-mounted"
		require.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.Rename(dir, moved), loan.Moved(moved)))
		for _, locked := range []string{".", "docs", "many", "hollow"} {
			require.NoError(t, os.Chmod(filepath.Join(moved, locked), 0o755))
		}
		require.NoError(t, os.Chmod(filepath.Join(moved, "main.go"), 0o644))
		require.NoError(t, damage(moved))
		require.NoError(t, loan.GiveBack(t.Context(), l.home))
		require.NoDirExists(t, moved)
		loan, dir = lend(n + 1)
		require.Equal(t, want, snapshotOf(t, dir), "damage %d", n)
		require.Equal(t, kept, inode(t, filepath.Join(dir, "many/79")), "the file is the same")
	}
	require.NoError(t, loan.GiveBack(t.Context(), ""))
	require.NoDirExists(t, dir)
}

// Untouched files that were written just before a step begins need not be written again.
func TestLendAnswer_untouched(t *testing.T) {
	t.Parallel()
	l, source := newLender(t), tempDir(t)
	for i := range 40 {
		write(t, source, map[string]string{fmt.Sprint(i): fmt.Sprint(i)})
	}
	change, hash, err := artifact.OpenWorkingCopy(l.store, artifact.Layout{}, source, "").Seal(t.Context())
	require.NoError(t, err)
	for _, touched := range []bool{true, false} {
		dir := filepath.Join(l.home, fmt.Sprint(touched))
		loan, err := l.trees.LendAnswer(t.Context(), l.store, artifact.Layout{}, hash, change, dir)
		require.NoError(t, err)
		snapshot.Hasten(loan)
		if !touched {
			require.Eventually(t, func() bool {
				loan.Untouched()
				return snapshot.Settled(loan)
			}, time.Minute, time.Millisecond)
		}
		require.NoError(t, loan.GiveBack(t.Context(), l.home))
		spares, err := filepath.Glob(filepath.Join(l.home, "conclave-spare-*"))
		require.NoError(t, err)
		require.Equal(t, !touched, len(spares) == 1)
	}
}

package base_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/base"
)

// next returns the lender of a later process.
func (l *lender) next(t *testing.T) *lender {
	t.Helper()
	l.trees.Close()
	later := *l
	later.home, later.trees = tempDir(t), base.NewTrees(l.store, l.dir, 1<<30)
	var err error
	later.base, err = later.trees.Open(t.Context(), l.base.Hash())
	require.NoError(t, err)
	return &later
}

// giveBackAll lends copies, gives them back, and returns the inode of one file in each.
func (l *lender) giveBackAll(copies int, readOnly bool) (inodes []uint64) {
	l.t.Helper()
	var loans []*base.Loan
	for range copies {
		loan, dir := l.lend(readOnly)
		loans, inodes = append(loans, loan), append(inodes, inode(l.t, filepath.Join(dir, "main.go")))
	}
	for _, loan := range loans {
		require.NoError(l.t, loan.GiveBack(l.t.Context(), l.home))
	}
	return inodes
}

func TestClose_leavesCopiesToTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		first := newLender(t)
		left := first.giveBackAll(6, readOnly)[2:]
		later := first.next(t)
		for range left {
			_, dir := later.lend(readOnly)
			require.Contains(t, left, inode(t, filepath.Join(dir, "main.go")))
			later.requireBase(dir, readOnly)
		}
		_, dir := later.lend(readOnly)
		require.NotContains(t, left, inode(t, filepath.Join(dir, "main.go")), "four are kept")
		later.requireBase(dir, readOnly)
	}
}

func TestClose_copiesOfTheOtherKindStay(t *testing.T) {
	t.Parallel()
	first := newLender(t)
	left := first.giveBackAll(1, true)
	later := first.next(t)
	_, dir := later.lend(false)
	require.NotContains(t, left, inode(t, filepath.Join(dir, "main.go")))
	_, dir = later.lend(true)
	require.Contains(t, left, inode(t, filepath.Join(dir, "main.go")))
}

// Changes to copies on the shelf are reverted, and a copy without a record is not used.
func TestClose_damagedCopies(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(home string) error{
		"a file": func(home string) error {
			return os.WriteFile(filepath.Join(home, "tree", "main.go"), []byte("package niam\n"), 0o644)
		},
		"a new file": func(home string) error {
			return os.WriteFile(filepath.Join(home, "tree", "new"), nil, 0o644)
		},
		"the record":   func(home string) error { return os.WriteFile(filepath.Join(home, "record"), []byte("?"), 0o600) },
		"no record":    func(home string) error { return os.Remove(filepath.Join(home, "record")) },
		"no directory": func(home string) error { return os.RemoveAll(filepath.Join(home, "tree")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newLender(t)
			first.giveBackAll(1, false)
			later := first.next(t)
			shelf := filepath.Join(first.dir, "spares")
			homes, err := os.ReadDir(shelf)
			require.NoError(t, err)
			require.Len(t, homes, 1)
			require.NoError(t, damage(filepath.Join(shelf, homes[0].Name())))
			_, dir := later.lend(false)
			later.requireBase(dir, false)
			homes, err = os.ReadDir(shelf)
			require.NoError(t, err)
			require.Empty(t, homes)
		})
	}
}

func TestClose_keepsTheNewestCopies(t *testing.T) {
	t.Parallel()
	l := newLender(t)
	for range 3 {
		l.giveBackAll(3, false)
		l.giveBackAll(1, true)
		l = l.next(t)
	}
	l.trees.Close()
	homes, err := os.ReadDir(filepath.Join(l.dir, "spares"))
	require.NoError(t, err)
	require.Len(t, homes, 4)
}

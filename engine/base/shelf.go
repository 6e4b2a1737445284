package base

import (
	"context"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/scratch"
)

// The shelf is a directory, beside the unpacked trees, of copies that processes leave to
// later ones. Each has its own directory with the copy and its record.
const (
	shelfDir    = "spares"
	shelfTree   = "tree"
	shelfRecord = "record"
	newPrefix   = "new-"   // begins the name of a copy that is being moved to the shelf
	takenPrefix = "taken-" // begins the name of a copy that is being taken from it
	// maxShelved is the number of copies on the shelf, and maxShelvedBytes the size of one.
	maxShelved      = 4
	maxShelvedBytes = 256 << 20
)

// shelved is the record of a copy. It is not JSON, which cannot hold every name.
type shelved struct {
	Lent     time.Time
	Is, Dirs map[string]artifact.Identity
}

// shelfName begins the name of every copy of a base on the shelf.
func shelfName(hash string, readOnly bool) string {
	if readOnly {
		return hash + "-ro-"
	}
	return hash + "-rw-"
}

// Close leaves the newest copies of bases that were given back to later processes with the same
// directory, if copies and directory are on one file system. The others stay where they are.
func (t *Trees) Close() {
	t.mu.Lock()
	spares := t.spares
	t.spares = nil
	t.mu.Unlock()
	spares = slices.DeleteFunc(spares, func(l *Loan) bool { return l.base == nil })
	for _, l := range spares[max(0, len(spares)-maxShelved):] {
		if l.size() <= maxShelvedBytes {
			_ = l.shelve() // else the next process makes a copy
		}
	}
	t.trimShelf()
}

// shelve moves a copy to the shelf.
func (l *Loan) shelve() error {
	shelf := filepath.Join(l.trees.dir, shelfDir)
	if err := os.MkdirAll(shelf, 0o700); err != nil {
		return err
	}
	home, err := os.MkdirTemp(shelf, newPrefix)
	if err != nil {
		return err
	}
	err = l.move(filepath.Join(home, shelfTree))
	if err == nil {
		err = writeRecord(filepath.Join(home, shelfRecord), shelved{Lent: l.lent, Is: l.is, Dirs: l.dirs})
	}
	if err == nil {
		err = os.Rename(home, filepath.Join(shelf, shelfName(l.base.Hash(), l.readOnly)+filepath.Base(home)))
	}
	if err != nil {
		return errors.Join(err, scratch.RemoveTree(home))
	}
	return nil
}

func writeRecord(name string, r shelved) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(r), f.Close())
}

func readRecord(name string) (r shelved, err error) {
	f, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer f.Close()
	err = gob.NewDecoder(f).Decode(&r)
	return r, err
}

// trimShelf removes the oldest copies, and those that a killed process was moving.
func (t *Trees) trimShelf() {
	shelf := filepath.Join(t.dir, shelfDir)
	entries, _ := os.ReadDir(shelf)
	type copied struct {
		path string
		at   time.Time
	}
	var copies []copied
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		c := copied{filepath.Join(shelf, e.Name()), info.ModTime()}
		switch {
		case !strings.HasPrefix(e.Name(), newPrefix) && !strings.HasPrefix(e.Name(), takenPrefix):
			copies = append(copies, c)
		case time.Since(c.at) > time.Hour:
			_ = scratch.RemoveTree(c.path)
		}
	}
	slices.SortFunc(copies, func(a, b copied) int { return a.at.Compare(b.at) })
	for _, c := range copies[:max(0, len(copies)-maxShelved)] {
		_ = scratch.RemoveTree(c.path)
	}
}

// unshelve moves a copy from the shelf to dir and restores it. It returns nil if there is no
// copy or restoring fails.
func (t *Trees) unshelve(ctx context.Context, b *artifact.Base, dir string, readOnly bool) *Loan {
	if t.dir == "" {
		return nil
	}
	shelf := filepath.Join(t.dir, shelfDir)
	entries, _ := os.ReadDir(shelf)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), shelfName(b.Hash(), readOnly)) {
			continue
		}
		// Only one of several processes can rename it.
		taken := filepath.Join(shelf, takenPrefix+e.Name())
		if os.Rename(filepath.Join(shelf, e.Name()), taken) != nil {
			continue
		}
		l, err := t.reopen(ctx, b, taken, dir, readOnly)
		_ = scratch.RemoveTree(taken)
		if err == nil {
			return l
		}
		_ = scratch.RemoveTree(dir)
	}
	return nil
}

func (t *Trees) reopen(ctx context.Context, b *artifact.Base, home, dir string, readOnly bool) (*Loan, error) {
	record, err := readRecord(filepath.Join(home, shelfRecord))
	if err != nil {
		return nil, err
	}
	l := t.loan(b, filepath.Join(home, shelfTree), readOnly)
	l.lent, l.is, l.dirs = record.Lent, record.Is, record.Dirs
	if err := l.move(dir); err != nil {
		return nil, err
	}
	if err := l.restore(ctx); err != nil {
		return nil, err
	}
	l.lent = time.Now()
	return l, nil
}

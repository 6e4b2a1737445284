package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

// Loan is a copy of a base, or of an answer's files, in a workspace. Given back, it is restored
// and lent again, which costs the files that have changed instead of all of them.
type Loan struct {
	trees    *Trees
	base     *artifact.Base // nil for an answer and for an empty directory
	key      string         // equal for copies with the same files; empty for a copy that is not lent again
	rewrite  rewrite        // nil for an empty directory
	dir      string
	real     string // dir with its links resolved
	readOnly bool
	lent     time.Time
	mount    *mount // nil for a copy

	files artifact.Manifest
	is    map[string]artifact.Identity // identities of the files and links
	dirs  map[string]artifact.Identity
}

// rewrite writes files that a copy has lost. Their directories exist and are writable.
type rewrite func(ctx context.Context, dir string, lost []artifact.File) error

// Bounds of the copies that wait to be lent again. They are kept in the directory of
// workspaces, which the process removes when it ends.
const (
	maxSpares   = 24
	sparePrefix = "conclave-spare-"
)

// Lend creates dir, which must not exist, with the files of a base. No file is a hard link.
// In a read-only copy, nothing is writable.
func (t *Trees) Lend(ctx context.Context, b *artifact.Base, dir string, readOnly bool) (*Loan, error) {
	l := t.newLoan(b, dir, readOnly)
	if b == nil {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		return l, l.noteRealPath()
	}
	if spare := t.lendSpare(b.Hash(), dir, readOnly); spare != nil {
		return spare, nil
	}
	err := t.placeFiles(ctx, b, l.files, dir)
	if err == nil {
		err = l.noteIdentities()
	}
	if err != nil {
		return nil, fmt.Errorf("copy base %s to %s: %w", b.Hash(), dir, err)
	}
	return l, nil
}

func (t *Trees) newLoan(b *artifact.Base, dir string, readOnly bool) *Loan {
	l := &Loan{trees: t, base: b, key: b.Hash(), files: b.Manifest(), dir: dir, readOnly: readOnly}
	if b == nil {
		return l
	}
	if readOnly {
		l.files = withoutWrite(l.files)
	}
	l.rewrite = func(ctx context.Context, dir string, lost []artifact.File) error {
		return restoreLost(ctx, t.treePath(b.Hash()), dir, lost)
	}
	return l
}

func (l *Loan) noteIdentities() error {
	if err := l.sealCopy(); err != nil {
		return err
	}
	l.lent = time.Now()
	return l.noteRealPath()
}

// Identity returns the identity of a file or link as it was lent.
func (l *Loan) Identity(name string) artifact.Identity { return l.is[name] }

// Lent returns the time at which the files were complete.
func (l *Loan) Lent() time.Time { return l.lent }

// Dir returns the directory.
func (l *Loan) Dir() string { return l.dir }

// Base returns the base whose files were lent, nil for an empty directory.
func (l *Loan) Base() *artifact.Base { return l.base }

// PutBack moves the directory back to its path, which must be free. It returns false unless
// the directory was renamed within its parent.
func (l *Loan) PutBack() bool {
	parent := filepath.Dir(l.dir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return false
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || artifact.Identify(info).Inode != l.dirs["."].Inode {
			continue
		}
		return os.Rename(filepath.Join(parent, e.Name()), l.dir) == nil && l.InPlace()
	}
	return false
}

// GiveBack removes the directory, or restores its files and keeps them below parent to lend
// them again. No process may write to them any more. It does nothing if the directory is no
// longer at its path. A mount is removed.
func (l *Loan) GiveBack(ctx context.Context, parent string) error {
	if l.mount != nil {
		return l.mount.removeMount()
	}
	if !l.InPlace() {
		return nil
	}
	if l.key == "" || l.trees.dir == "" || parent == "" || l.restoreFiles(ctx) != nil {
		return filelock.RemoveTree(l.dir)
	}
	home, err := os.MkdirTemp(parent, sparePrefix)
	if err == nil {
		err = l.moveTo(filepath.Join(home, "tree"))
	}
	if err != nil {
		return errors.Join(err, filelock.RemoveTree(l.dir))
	}
	return l.trees.keepSpare(l)
}

// InPlace reports whether the path still names the directory itself: an agent may have
// renamed it, or a directory above it, and put a link in its place.
func (l *Loan) InPlace() bool {
	if l.mount != nil {
		return l.mount.inPlace(l.dir)
	}
	real, err := filepath.EvalSymlinks(l.dir)
	if err != nil || real != l.real {
		return false
	}
	info, err := os.Lstat(l.dir)
	return err == nil && info.IsDir() && (l.dirs == nil || artifact.Identify(info).Inode == l.dirs["."].Inode)
}

func (l *Loan) noteRealPath() (err error) {
	l.real, err = filepath.EvalSymlinks(l.dir)
	return err
}

// moveTo renames the directory, which needs the permission to write to it.
func (l *Loan) moveTo(to string) error {
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(l.dir, to); err != nil {
		return err
	}
	l.dir = to
	if l.readOnly {
		if err := os.Chmod(to, 0o555); err != nil {
			return err
		}
	}
	return l.noteRealPath()
}

// lendSpare moves an unused copy to dir and returns its loan, or nil if no copy can be moved.
func (t *Trees) lendSpare(key, dir string, readOnly bool) *Loan {
	spare := t.takeSpare(key, readOnly)
	if spare == nil {
		return nil
	}
	home := filepath.Dir(spare.dir)
	err := spare.moveTo(dir)
	_ = filelock.RemoveTree(home)
	if err != nil {
		return nil
	}
	spare.lent = time.Now()
	return spare
}

func (t *Trees) takeSpare(key string, readOnly bool) *Loan {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.spares, func(l *Loan) bool { return l.key == key && l.readOnly == readOnly })
	if at < 0 {
		return nil
	}
	l := t.spares[at]
	t.spares = slices.Delete(t.spares, at, at+1)
	return l
}

func (t *Trees) keepSpare(l *Loan) error {
	t.mu.Lock()
	t.spares = append(t.spares, l)
	var size int64
	for _, s := range t.spares {
		size += s.sizeOf()
	}
	drop := 0
	for drop < len(t.spares) && (len(t.spares)-drop > maxSpares || size > t.max/2) {
		size -= t.spares[drop].sizeOf()
		drop++
	}
	dropped := slices.Clone(t.spares[:drop])
	t.spares = slices.Delete(t.spares, 0, drop)
	t.mu.Unlock()
	var errs []error
	for _, s := range dropped {
		errs = append(errs, filelock.RemoveTree(filepath.Dir(s.dir)))
	}
	return errors.Join(errs...)
}

func (l *Loan) sizeOf() (bytes int64) {
	for _, f := range l.files.Files {
		bytes += f.Size
	}
	return bytes
}

// sealCopy makes the directories of a read-only copy read-only and notes the identities of all files.
func (l *Loan) sealCopy() error {
	l.is, l.dirs = make(map[string]artifact.Identity, len(l.files.Files)), map[string]artifact.Identity{".": {}}
	for _, f := range l.files.Files {
		dir := path.Dir(f.Path)
		if f.Dir {
			dir = f.Path
		} else if err := l.noteEntry(l.is, f.Path); err != nil {
			return err
		}
		for ; dir != "."; dir = path.Dir(dir) {
			if _, known := l.dirs[dir]; known {
				break
			}
			l.dirs[dir] = artifact.Identity{}
		}
	}
	for dir := range l.dirs {
		if l.readOnly {
			if err := os.Chmod(filepath.Join(l.dir, dir), 0o555); err != nil {
				return err
			}
		}
		if err := l.noteEntry(l.dirs, dir); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loan) noteEntry(in map[string]artifact.Identity, name string) error {
	info, err := os.Lstat(filepath.Join(l.dir, name))
	if err == nil {
		in[name] = artifact.Identify(info)
	}
	return err
}

func withoutWrite(m artifact.Manifest) artifact.Manifest {
	files := slices.Clone(m.Files)
	for i := range files {
		files[i].Mode &^= uint32(0o222 & fs.ModePerm)
	}
	return artifact.Manifest{Files: files}
}

// minLent is the number of files of an answer from which its copies are lent again. Fewer are
// written in less time than it takes to keep them.
const minLent = 32

// LendAnswer makes the read-only directory dir, which must not exist, with the files of an
// answer's change, which has the given hash. Its contents come from store.
func (t *Trees) LendAnswer(ctx context.Context, store artifact.Store, layout artifact.Layout, hash string, c artifact.Change, dir string) (*Loan, error) {
	l := &Loan{trees: t, files: withoutWrite(artifact.Manifest{Files: c.Files}), dir: dir, readOnly: true}
	l.rewrite = func(ctx context.Context, dir string, files []artifact.File) error {
		return artifact.Manifest{Files: files}.Restore(ctx, store, layout, dir, false)
	}
	if len(c.Files) >= minLent {
		l.key = "answer " + hash
		if spare := t.lendSpare(l.key, dir, true); spare != nil {
			spare.rewrite = l.rewrite
			return spare, nil
		}
	}
	err := l.rewrite(ctx, dir, l.files.Files)
	if err == nil {
		err = l.noteIdentities()
	}
	if err != nil {
		return nil, fmt.Errorf("copy answer %s to %s: %w", hash, dir, err)
	}
	return l, nil
}

// Moved tells the loan that its directory has been renamed.
func (l *Loan) Moved(dir string) error {
	l.dir = dir
	return l.noteRealPath()
}

// Untouched tells the loan that nobody has written to its files so far, so that their identities
// show every later change.
func (l *Loan) Untouched() { l.lent = time.Now() }

package base

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/scratch"
)

// errChanged reports that it is cheaper to copy a tree again than to restore it.
var errChanged = errors.New("too much of the copy has changed")

// restoring brings a loan back to its files.
type restoring struct {
	loan    *Loan
	root    *os.Root
	intact  map[string]bool // files, links and directories
	changed map[string]bool // directories whose entries or attributes may have changed; they are writable
}

// restore brings the directory back to the files that were lent. It rewrites those that are
// missing or changed, and removes everything else, ignored and special files included. If too many
// files must be rewritten, it fails with errChanged.
func (l *Loan) restore(ctx context.Context) error {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &restoring{loan: l, root: root, intact: make(map[string]bool, len(l.is)+len(l.dirs)), changed: map[string]bool{}}
	if err := r.dir("."); err != nil {
		return err
	}
	var lost []artifact.File
	for _, f := range l.files.Files {
		if !f.Dir && !r.intact[f.Path] {
			lost = append(lost, f)
		}
	}
	if len(lost) > 16+len(l.is)/4 {
		return errChanged
	}
	if err := r.copy(ctx, lost); err != nil {
		return err
	}
	return r.finish()
}

// dir compares a directory of the base and those below it.
func (r *restoring) dir(name string) error {
	info, err := r.root.Lstat(name)
	if err != nil {
		return err
	}
	r.intact[name] = true
	if is := artifact.Identify(info); is != r.loan.dirs[name] || !is.Settled(r.loan.lent.UnixNano()) {
		if err := r.change(name); err != nil {
			return err
		}
	}
	f, err := r.root.Open(name)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.entry(path.Join(name, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// change makes a directory writable until finish.
func (r *restoring) change(dir string) error {
	if r.changed[dir] {
		return nil
	}
	r.changed[dir] = true
	return r.root.Chmod(dir, 0o755)
}

// entry keeps an unchanged entry and removes any other.
func (r *restoring) entry(name string, e os.DirEntry) error {
	if e.IsDir() {
		if _, ours := r.loan.dirs[name]; ours {
			return r.dir(name)
		}
		return errors.Join(r.change(path.Dir(name)), scratch.RemoveTree(filepath.Join(r.loan.dir, name)))
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	was, ours := r.loan.is[name]
	if ours && artifact.Identify(info) == was && was.Settled(r.loan.lent.UnixNano()) {
		r.intact[name] = true
		return nil
	}
	return errors.Join(r.change(path.Dir(name)), r.root.Remove(name))
}

// copy makes the directories and files that are lost.
func (r *restoring) copy(ctx context.Context, lost []artifact.File) error {
	l := r.loan
	for _, dir := range slices.Sorted(maps.Keys(l.dirs)) { // parents come first
		if r.intact[dir] {
			continue
		}
		if err := errors.Join(r.change(path.Dir(dir)), r.root.Mkdir(dir, 0o755), r.change(dir)); err != nil {
			return err
		}
	}
	for _, f := range lost {
		if err := r.change(path.Dir(f.Path)); err != nil {
			return err
		}
	}
	if err := l.rewrite(ctx, l.dir, lost); err != nil {
		return err
	}
	for _, f := range lost {
		if err := l.note(l.is, f.Path); err != nil {
			return err
		}
	}
	return nil
}

// recopy copies files and links of an unpacked base to dir.
func recopy(ctx context.Context, tree, dir string, lost []artifact.File) error {
	for _, f := range lost {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		to := filepath.Join(dir, f.Path)
		var err error
		if f.Link != "" {
			err = os.Symlink(f.Link, to)
		} else {
			err = copyFile(f, filepath.Join(tree, f.Path), to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish removes the attributes of the directories that have changed.
func (r *restoring) finish() error {
	for dir := range r.changed {
		if err := clearAttributes(filepath.Join(r.loan.dir, dir)); err != nil {
			return err
		}
		if r.loan.readOnly {
			if err := r.root.Chmod(dir, 0o555); err != nil {
				return err
			}
		}
		if err := r.loan.note(r.loan.dirs, dir); err != nil {
			return err
		}
	}
	return nil
}

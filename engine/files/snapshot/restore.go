package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
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

// restoreFiles brings the directory back to the files that were lent. It rewrites those that are
// missing or changed, and removes everything else, ignored and special files included. If too many
// files must be rewritten, it fails with errChanged.
func (l *Loan) restoreFiles(ctx context.Context) error {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &restoring{loan: l, root: root, intact: make(map[string]bool, len(l.is)+len(l.dirs)), changed: map[string]bool{}}
	if err := r.compareDir("."); err != nil {
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
	if err := r.copyLost(ctx, lost); err != nil {
		return err
	}
	return r.finishDirs()
}

func (r *restoring) compareDir(name string) error {
	info, err := r.root.Lstat(name)
	if err != nil {
		return err
	}
	r.intact[name] = true
	if is := artifact.Identify(info); is != r.loan.dirs[name] || !is.Settled(r.loan.lent.UnixNano()) {
		if err := r.makeWritable(name); err != nil {
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
		if err := r.keepUnchanged(path.Join(name, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// makeWritable makes a directory writable until finish.
func (r *restoring) makeWritable(dir string) error {
	if r.changed[dir] {
		return nil
	}
	r.changed[dir] = true
	return r.root.Chmod(dir, 0o755)
}

// keepUnchanged keeps an unchanged entry and removes any other.
func (r *restoring) keepUnchanged(name string, e os.DirEntry) error {
	if e.IsDir() {
		if _, ours := r.loan.dirs[name]; ours {
			return r.compareDir(name)
		}
		return errors.Join(r.makeWritable(path.Dir(name)), filelock.RemoveTree(filepath.Join(r.loan.dir, name)))
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
	return errors.Join(r.makeWritable(path.Dir(name)), r.root.Remove(name))
}

func (r *restoring) copyLost(ctx context.Context, lost []artifact.File) error {
	l := r.loan
	for _, dir := range slices.Sorted(maps.Keys(l.dirs)) { // parents come first
		if r.intact[dir] {
			continue
		}
		if err := errors.Join(r.makeWritable(path.Dir(dir)), r.root.Mkdir(dir, 0o755), r.makeWritable(dir)); err != nil {
			return err
		}
	}
	for _, f := range lost {
		if err := r.makeWritable(path.Dir(f.Path)); err != nil {
			return err
		}
	}
	if err := l.rewrite(ctx, l.dir, lost); err != nil {
		return err
	}
	for _, f := range lost {
		if err := l.noteEntry(l.is, f.Path); err != nil {
			return err
		}
	}
	return nil
}

func restoreLost(ctx context.Context, tree, dir string, lost []artifact.File) error {
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

// finishDirs removes the attributes of the directories that have changed.
func (r *restoring) finishDirs() error {
	for dir := range r.changed {
		if err := clearAttributes(filepath.Join(r.loan.dir, dir)); err != nil {
			return err
		}
		if r.loan.readOnly {
			if err := r.root.Chmod(dir, 0o555); err != nil {
				return err
			}
		}
		if err := r.loan.noteEntry(r.loan.dirs, dir); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trees) copySerially(ctx context.Context, m artifact.Manifest, src, dst string) error {
	select {
	case t.copying <- struct{}{}:
		defer func() { <-t.copying }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return copyTree(ctx, m, src, dst)
}

func copyTree(ctx context.Context, m artifact.Manifest, src, dst string) error {
	return fillDir(ctx, m, dst, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(copiers)
		for files := range slices.Chunk(m.Files, 64) {
			group.Go(func() error {
				for _, f := range files {
					if !isRegular(f) {
						continue
					}
					if err := ctx.Err(); err != nil {
						return context.Cause(ctx)
					}
					if err := copyFile(f, filepath.Join(src, f.Path), filepath.Join(dst, f.Path)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
}

// Clones reports whether copies of files in one directory share their blocks in another.
func Clones(from, to string) (bool, error) {
	src, err := os.CreateTemp(from, "clone-")
	if err != nil {
		return false, err
	}
	defer func() { _ = errors.Join(src.Close(), os.Remove(src.Name())) }()
	dst, err := os.CreateTemp(to, "clone-")
	if err != nil {
		return false, err
	}
	defer func() { _ = errors.Join(dst.Close(), os.Remove(dst.Name())) }()
	if _, err := src.WriteString("x"); err != nil {
		return false, err
	}
	return shareBlocks(dst, src), nil
}

// copiers is the number of files that are copied at a time.
const copiers = 8

// copyFile copies one file, by reflink where the file system can.
func copyFile(f artifact.File, src, dst string) error {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if !shareBlocks(to, from) {
		if n, err := io.Copy(to, from); err != nil || n != f.Size {
			return errors.Join(err, fmt.Errorf("%s has %d bytes, the manifest lists %d", src, n, f.Size))
		}
	}
	if err := to.Chmod(fs.FileMode(f.Mode) & fs.ModePerm); err != nil {
		return err
	}
	return to.Close()
}

// fillDir creates dst with the directories and links of a manifest; files writes the contents. The paths of a
// manifest stay inside, and links are made last, so nothing is written through one.
func fillDir(ctx context.Context, m artifact.Manifest, dst string, files func(context.Context) error) error {
	if err := os.Mkdir(dst, 0o755); err != nil {
		return err
	}
	made := map[string]bool{}
	for _, f := range m.Files {
		dir := filepath.Dir(f.Path)
		if f.Dir {
			dir = f.Path
		}
		if dir == "." || made[dir] {
			continue
		}
		made[dir] = true
		if err := os.MkdirAll(filepath.Join(dst, dir), 0o755); err != nil {
			return err
		}
	}
	if err := files(ctx); err != nil {
		return err
	}
	for _, f := range m.Files {
		if f.Link != "" {
			if err := os.Symlink(f.Link, filepath.Join(dst, f.Path)); err != nil {
				return err
			}
		}
	}
	return nil
}

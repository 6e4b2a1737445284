package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Dir is the Store on a local directory. An object is a regular file under the
// unescaped name of its key, so "agents/a/001/workspace/my=20notes.txt" is the
// file "my notes.txt". Directories, links and special files are not objects.
//
// Processes may share a directory. Every access goes through os.Root: following a link out of the directory
// is an error. Unfinished writes are kept in TempDir, which no key can name.
type Dir struct {
	root *os.Root
	path string // absolute path
}

var _ Store = (*Dir)(nil)

// NewDir opens the directory as a store, creating it if it is missing. The caller closes the Dir after use.
func NewDir(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open directory store %q: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("make directory store: %w: choose a directory that can be written", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open directory store: %w: choose a directory that can be read", err)
	}
	d := &Dir{root: root, path: abs}
	d.sweepTemp()
	return d, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// URL returns the absolute path of the object's file.
func (d *Dir) URL(key string) string {
	return filepath.Join(d.path, filepath.FromSlash(unescapeKey(key)))
}

// Get implements Store.
func (d *Dir) Get(ctx context.Context, key string) (data []byte, err error) {
	defer nameCall(&err, "get", key)
	f, err := d.openObject(ctx, key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(contextReader(ctx, f))
}

func nameCall(err *error, operation, key string) {
	if *err != nil {
		*err = StoreFault(fmt.Sprintf("%s %q", operation, key), *err)
	}
}

// Open implements Store.
func (d *Dir) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	f, err := d.openObject(ctx, key)
	if err != nil {
		nameCall(&err, "open", key)
		return nil, err
	}
	return f, nil
}

// Exists implements Store.
func (d *Dir) Exists(ctx context.Context, key string) (found bool, err error) {
	defer nameCall(&err, "look up", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return false, err
	}
	if err = d.checkObject(name); errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Delete implements Store. It leaves empty directories: removing one would race
// with a writer that is about to use it.
func (d *Dir) Delete(ctx context.Context, key string) (err error) {
	defer nameCall(&err, "delete", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	if err = d.checkObject(name); err == nil {
		err = d.root.Remove(name)
	}
	if errors.Is(err, ErrNotFound) || isMissing(err) {
		return nil
	}
	return err
}

// DeleteAll implements Store, one object after the other.
func (d *Dir) DeleteAll(ctx context.Context, keys []string) error {
	var failed []error
	for _, key := range keys {
		if ctx.Err() != nil {
			return errors.Join(append(failed, StoreFault(fmt.Sprintf("delete %d objects", len(keys)), ctx.Err()))...)
		}
		failed = append(failed, d.Delete(ctx, key))
	}
	return errors.Join(failed...)
}

func (d *Dir) fileName(ctx context.Context, key string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return unescapeKey(key), nil
}

func (d *Dir) openObject(ctx context.Context, key string) (*os.File, error) {
	name, err := d.fileName(ctx, key)
	if err != nil {
		return nil, err
	}
	return openRegular(d.root, name)
}

// checkObject returns nil if name is an object, else ErrNotFound or the error that prevented the check.
func (d *Dir) checkObject(name string) error {
	info, err := d.root.Lstat(name)
	switch {
	case isMissing(err):
		return ErrNotFound
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return ErrNotFound
	}
	return nil
}

// openRegular opens a regular file for reading, or fails with ErrNotFound. It does
// not follow a link at the end of the name and does not wait on a FIFO.
func openRegular(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if isMissing(err) || err == nil && !before.Mode().IsRegular() {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return openListed(root, name)
}

// openListed is openRegular for a name that was just listed as a regular file.
func openListed(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if isMissing(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	// The file may have been replaced.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(ErrNotFound, err)
	}
	return f, nil
}

// isMissing reports whether err says that a name does not exist or that one of its parents is a file.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func contextReader(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// List implements Store. It skips a file if no key can express its name.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := CheckPrefix(prefix); err != nil {
			nameCall(&err, "list", prefix)
			yield("", err)
			return
		}
		d.listBelow(ctx, prefix, func(key string, err error) bool {
			nameCall(&err, "list", prefix)
			return yield(key, err)
		})
	}
}

// Objects implements Store.
func (d *Dir) Objects(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for key, err := range d.List(ctx, prefix) {
			var info fs.FileInfo
			if err == nil {
				info, err = d.root.Lstat(unescapeKey(key))
			}
			switch {
			case isMissing(err): // deleted since it was listed
			case err != nil:
				nameCall(&err, "list", prefix)
				yield(Object{}, err)
				return
			case !yield(Object{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil):
				return
			}
		}
	}
}

func (d *Dir) listBelow(ctx context.Context, prefix string, yield func(string, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield("", err)
		return false
	}
	entries, err := d.listEntries(prefix)
	if err != nil {
		yield("", err)
		return false
	}
	for _, key := range entries {
		if strings.HasSuffix(key, "/") {
			if !d.listBelow(ctx, key, yield) {
				return false
			}
		} else if !yield(key, nil) {
			return false
		}
	}
	return true
}

// listEntries returns the sorted keys of the files in a directory and, with a final "/", of its directories.
// The "/" gives entries the same order as the keys below them: "a-b" comes before "a/b".
func (d *Dir) listEntries(prefix string) ([]string, error) {
	name := cmp.Or(strings.TrimSuffix(unescapeKey(prefix), "/"), ".")
	if info, err := d.root.Stat(name); isMissing(err) || err == nil && !info.IsDir() {
		return nil, nil
	}
	dir, err := d.root.Open(name)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(found))
	for _, entry := range found {
		var b strings.Builder
		b.WriteString(prefix)
		escapeSegment(&b, entry.Name())
		switch {
		case CheckKey(b.String()) != nil:
		case entry.Type().IsRegular():
			keys = append(keys, b.String())
		case entry.IsDir():
			keys = append(keys, b.String()+"/")
		}
	}
	slices.Sort(keys)
	return keys, nil
}

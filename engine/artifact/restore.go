package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Restore writes the files and links to a directory, creating it if it is missing. It
// replaces existing files of the same name and keeps others. With readOnly the whole
// tree becomes read-only: remove it with RemoveTree.
//
// Content that does not match its hash fails with ErrCorrupt. Nothing outside the
// directory is written, regardless of the contents of the manifest and the directory.
func (m Manifest) Restore(ctx context.Context, store Store, layout Layout, dir string, readOnly bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore workspace to %q: %w", dir, err)
		}
	}()
	if err := m.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &restoring{store: store, layout: layout, root: root, readOnly: readOnly}
	if err := r.run(ctx, m); err != nil || !readOnly {
		return err
	}
	return r.sealDirs(m)
}

// restoring restores one manifest.
type restoring struct {
	store    Store
	layout   Layout
	root     *os.Root
	readOnly bool
}

func (r *restoring) run(ctx context.Context, m Manifest) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if f.content() {
			group.Go(func() error { return r.file(groupCtx, f) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Links come after the files, so that no file is written through a link of the manifest.
	for _, f := range m.Files {
		var err error
		switch {
		case f.Link != "":
			err = r.link(ctx, f)
		case f.Dir:
			err = r.emptyDir(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) emptyDir(f File) error {
	if info, err := r.root.Lstat(f.Path); err == nil && info.IsDir() {
		return nil
	}
	if err := r.clear(f.Path); err != nil {
		return err
	}
	return r.root.Mkdir(f.Path, 0o755)
}

func (r *restoring) file(ctx context.Context, f File) error {
	src, err := OpenFile(ctx, r.store, r.layout, f)
	if err != nil {
		return fmt.Errorf("content of %q: %w", f.Path, err)
	}
	defer src.Close()
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	dst, err := r.root.OpenFile(f.Path, flags, 0o600)
	if err != nil { // most often the directory is missing
		if err := r.clear(f.Path); err != nil {
			return err
		}
		if dst, err = r.root.OpenFile(f.Path, flags, 0o600); err != nil {
			return err
		}
	}
	err = errors.Join(CopyVerified(ctx, dst, src, f), dst.Chmod(r.mode(f)), dst.Close())
	if err != nil {
		return errors.Join(err, r.root.Remove(f.Path))
	}
	return nil
}

// CopyVerified copies the content of f and fails with ErrCorrupt if size or hash
// differ.
func CopyVerified(ctx context.Context, dst io.Writer, src io.Reader, f File) error {
	if s, ok := src.(*Section); ok && ctx.Err() == nil {
		if int64(len(s.data)) != f.Size || s.sum != f.SHA256 && SumOf(s.data) != f.SHA256 {
			return fmt.Errorf("content of %q: %w", f.Path, ErrCorrupt)
		}
		_, err := dst.Write(s.data)
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, hash), contextReader(ctx, io.LimitReader(src, f.Size+1)))
	if err != nil {
		return fmt.Errorf("content of %q: %w", f.Path, err)
	}
	if n != f.Size || hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("content of %q: %w", f.Path, ErrCorrupt)
	}
	return nil
}

func (r *restoring) link(ctx context.Context, f File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.clear(f.Path); err != nil {
		return err
	}
	return r.root.Symlink(f.Link, f.Path)
}

// clear makes the directories of a file and frees its name.
func (r *restoring) clear(name string) error {
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mode returns the permissions of a file, always readable by its owner.
func (r *restoring) mode(f File) fs.FileMode {
	mode := fs.FileMode(f.Mode)&fs.ModePerm | 0o400
	if r.readOnly {
		mode &^= 0o222
	}
	return mode
}

// sealDirs makes the directories of the manifest read-only, the deepest first.
func (r *restoring) sealDirs(m Manifest) error {
	dirs := map[string]bool{".": true}
	for _, f := range m.Files {
		if f.Dir {
			dirs[f.Path] = true
		}
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(dirs))) {
		if err := r.root.Chmod(dir, 0o555); err != nil {
			return err
		}
	}
	return nil
}

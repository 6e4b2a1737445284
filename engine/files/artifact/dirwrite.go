package artifact

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// TempDir is the directory of a Dir for unfinished files. CheckKey refuses its initial
	// dot, so no key can name a temporary file.
	TempDir = ".conclave-tmp"
	// fileMode is the mode of objects before the umask.
	fileMode = 0o644
	// tempAge is the age at which a temporary file counts as left over from a crash.
	tempAge = 24 * time.Hour
	// copyChunk is the number of bytes that Copy moves between checks of its context.
	copyChunk = 64 << 20
)

// Put implements Store: it writes a temporary file and renames it.
func (d *Dir) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	_, err := d.PutStream(ctx, key, body)
	return err
}

// PutStream is Put for a body that cannot seek. It returns the size of the object.
func (d *Dir) PutStream(ctx context.Context, key string, body io.Reader) (n int64, err error) {
	defer nameCall(&err, "put", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return 0, err
	}
	err = d.writeAtomic(name, d.root.Rename, func(f *os.File) error {
		n, err = io.Copy(f, contextReader(ctx, body))
		return err
	})
	return n, err
}

// PutBlobs implements Store with one file per content.
func (d *Dir) PutBlobs(ctx context.Context, prefix string, contents []Content) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, c := range contents {
		group.Go(func() error { return d.Put(ctx, prefix+c.SHA256, bytes.NewReader(c.Data)) })
	}
	return group.Wait()
}

// Create implements Store: it writes a temporary file and links it, which fails if the name is taken.
func (d *Dir) Create(ctx context.Context, key string, body []byte) (err error) {
	defer nameCall(&err, "create", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	return d.writeAtomic(name, d.publishNew, func(f *os.File) error {
		_, err := io.Copy(f, contextReader(ctx, bytes.NewReader(body)))
		return err
	})
}

// Copy implements Store.
func (d *Dir) Copy(ctx context.Context, src, dst string) error {
	if err := d.copyObject(ctx, src, dst, fileMode); err != nil {
		return StoreFault(fmt.Sprintf("copy %q to %q", src, dst), err)
	}
	return nil
}

func (d *Dir) copyObject(ctx context.Context, src, dst string, mode fs.FileMode) error {
	name, err := d.fileName(ctx, dst)
	if err != nil {
		return err
	}
	from, err := d.openObject(ctx, src)
	if err != nil {
		return err
	}
	defer from.Close()
	return d.writeAtomic(name, d.root.Rename, func(f *os.File) error {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			// Between two files, the kernel copies or shares the blocks.
			switch _, err := io.CopyN(f, from, copyChunk); {
			case errors.Is(err, io.EOF):
				return setMode(f, mode)
			case err != nil:
				return err
			}
		}
	})
}

// setMode sets a mode other than the default, which is subject to the umask.
func setMode(f *os.File, mode fs.FileMode) error {
	if mode == fileMode {
		return nil
	}
	return f.Chmod(mode)
}

// publishNew links a temporary file to name, or fails with ErrExists if name is taken.
func (d *Dir) publishNew(temp, name string) error {
	err := d.root.Link(temp, name)
	switch {
	case errors.Is(err, fs.ErrExist):
		if d.checkObject(name) != nil {
			return fmt.Errorf("%w: the name is taken, and not by a file: remove it", err)
		}
		return ErrExists
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: this file system has no hard links: use a directory on another", err)
	}
	return err
}

// writeAtomic fills a temporary file, syncs it and publishes it under name. A reader sees the whole
// file or none, even after a crash.
func (d *Dir) writeAtomic(name string, publish func(temp, name string) error, fill func(*os.File) error) error {
	f, temp, err := d.createTemp()
	if err != nil {
		return err
	}
	defer d.root.Remove(temp) // fails after a rename
	if err := errors.Join(fill(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	dir := path.Dir(name)
	if err := d.makeDirs(dir); err != nil {
		return err
	}
	if err := publish(temp, name); err != nil {
		return err
	}
	return d.syncDir(dir)
}

func (d *Dir) createTemp() (*os.File, string, error) {
	name := TempDir + "/" + rand.Text()
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := d.root.OpenFile(name, flags, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.root.Mkdir(TempDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
		f, err = d.root.OpenFile(name, flags, fileMode)
	}
	return f, name, err
}

// MakeDir durably makes the empty directory for the object of a key. It fails with
// ErrExists if the directory's name is taken.
func (d *Dir) MakeDir(ctx context.Context, key string) (err error) {
	defer nameCall(&err, "make the directory of", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	parent := path.Dir(dir)
	if err := d.makeDirs(parent); err != nil {
		return err
	}
	switch err := d.root.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return err
	}
	return d.syncDir(parent)
}

// makeDirs durably makes a directory and its parents.
func (d *Dir) makeDirs(dir string) error {
	if info, err := d.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent, made := ".", ""
	for part := range strings.SplitSeq(dir, "/") {
		made = path.Join(made, part)
		err := d.root.Mkdir(made, 0o755)
		if err == nil {
			err = d.syncDir(parent)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		parent = made
	}
	return nil
}

func (d *Dir) syncDir(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems cannot sync a directory.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// sweepTemp removes the files of crashed writers. It ignores errors: the next NewDir tries again.
func (d *Dir) sweepTemp() {
	// Without blocking: it may be a FIFO.
	dir, err := d.root.OpenFile(TempDir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
			_ = d.root.Remove(TempDir + "/" + entry.Name())
		}
	}
}

// placeEntry writes an entry of a manifest under a key. Unlike an object in a bucket, the result
// can have a mode, or be a symbolic link or a directory.
func (d *Dir) placeEntry(ctx context.Context, layout Layout, f File, key string) (err error) {
	mode := fs.FileMode(f.Mode)&fs.ModePerm | 0o400
	switch {
	case f.Link != "":
		return d.Link(ctx, key, f.Link)
	case f.Dir:
		err = d.makeDirs(unescapeKey(key))
	case layout.base.HasContent(f.SHA256):
		err = d.placeFromBase(ctx, layout, f, key, mode)
	default:
		err = d.copyObject(ctx, layout.Blob(f.SHA256), key, mode)
	}
	if err != nil {
		return fmt.Errorf("place %q: %w", key, err)
	}
	return nil
}

func (d *Dir) placeFromBase(ctx context.Context, layout Layout, f File, key string, mode fs.FileMode) error {
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	from, err := layout.base.Open(ctx, f)
	if err != nil {
		return err
	}
	defer from.Close()
	return d.writeAtomic(name, d.root.Rename, func(to *os.File) error {
		return errors.Join(CopyVerified(ctx, to, from, f), setMode(to, mode))
	})
}

// Link makes the name of a key a symbolic link to target, which is not checked. It replaces an existing file.
func (d *Dir) Link(ctx context.Context, key, target string) (err error) {
	defer nameCall(&err, "link", key)
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	dir, temp := path.Dir(name), TempDir+"/"+rand.Text()
	if err := errors.Join(d.makeDirs(TempDir), d.makeDirs(dir)); err != nil {
		return err
	}
	if err := d.root.Symlink(target, temp); err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	return d.syncDir(dir)
}

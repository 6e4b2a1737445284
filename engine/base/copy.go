package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// copyOne copies a tree. Concurrent calls copy one tree at a time.
func (t *Trees) copyOne(ctx context.Context, m artifact.Manifest, src, dst string) error {
	select {
	case t.copying <- struct{}{}:
		defer func() { <-t.copying }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return copyTree(ctx, m, src, dst)
}

// copyTree creates dst with the files of a manifest, which it copies from src.
func copyTree(ctx context.Context, m artifact.Manifest, src, dst string) error {
	return fill(ctx, m, dst, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(copiers)
		for files := range slices.Chunk(m.Files, 64) {
			group.Go(func() error {
				for _, f := range files {
					if !regular(f) {
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
	return clone(dst, src), nil
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
	if !clone(to, from) {
		if n, err := io.Copy(to, from); err != nil || n != f.Size {
			return errors.Join(err, fmt.Errorf("%s has %d bytes, the manifest lists %d", src, n, f.Size))
		}
	}
	if err := to.Chmod(fs.FileMode(f.Mode) & fs.ModePerm); err != nil {
		return err
	}
	return to.Close()
}

// fill creates dst with the directories and links of a manifest; files writes the contents.
// The paths of a manifest stay inside, and links are made last, so nothing is written through
// one.
func fill(ctx context.Context, m artifact.Manifest, dst string, files func(context.Context) error) error {
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

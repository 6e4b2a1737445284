package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// place puts a manifest's file or link under a key: in a directory people and
// other programs find the files as they were, with modes and links, which an
// object in a bucket does not have.
func (d *Dir) place(ctx context.Context, layout Layout, f File, key string) error {
	if f.Link == "" {
		if err := d.copy(ctx, layout.Blob(f.SHA256), key, fs.FileMode(f.Mode)&fs.ModePerm|0o400); err != nil {
			return fmt.Errorf("place %q: %w", key, err)
		}
		return nil
	}
	if err := d.placeLink(ctx, f.Link, key); err != nil {
		return fmt.Errorf("place %q: %w", key, err)
	}
	return nil
}

// placeLink makes a link under a temporary name and renames it.
func (d *Dir) placeLink(ctx context.Context, target, key string) error {
	name, err := d.fileName(ctx, key)
	if err != nil {
		return err
	}
	temp := TempDir + "/" + rand.Text()
	if err := d.makeDirs(TempDir); err != nil {
		return err
	}
	if err := d.root.Symlink(target, temp); err != nil {
		return err
	}
	dir := path.Dir(name)
	if err := d.makeDirs(dir); err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	if err := d.root.Rename(temp, name); err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	return d.syncDir(dir)
}

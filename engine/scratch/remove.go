package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// RemoveTree removes a file, a link, or a directory with everything below it, even if it is
// read-only. It follows no links; a missing directory is not an error.
func RemoveTree(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return os.Remove(dir) // opening it would follow a link
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	if err = errors.Join(unlock(root, "."), root.Close(), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// unlock makes a directory and those below it writable. It does not use an fs.FS, which could
// not open every name.
func unlock(root *os.Root, dir string) error {
	if err := root.Chmod(dir, 0o700); err != nil {
		return err
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := unlock(root, path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

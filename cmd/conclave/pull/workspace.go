package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"conclave/engine/artifact"
)

// restoreWorkspaces gives the workspaces what only their manifests know: modes
// and links. On the way it repairs files that are not what the manifest says.
func (c *copier) restoreWorkspaces(ctx context.Context, names []string) error {
	for _, name := range names {
		if path.Base(name) != "workspace.json" || !isManifest(name) {
			continue
		}
		m, err := readDocument[artifact.Manifest](c.root, name)
		if err != nil {
			return err
		}
		if err := m.Check(); err != nil {
			return fmt.Errorf("restore the workspace of %s: %w", path.Dir(name), err)
		}
		for _, f := range m.Files {
			if err := c.restore(ctx, path.Dir(name)+"/workspace/", f); err != nil {
				return fmt.Errorf("restore %s/workspace/%s: %w", path.Dir(name), f.Path, err)
			}
		}
	}
	return nil
}

// isManifest reports agents/<id>/<NNN>/workspace.json and final/<id>/workspace.json;
// a workspace may hold a file of that name itself.
func isManifest(name string) bool {
	for _, pattern := range []string{"agents/*/*/workspace.json", "final/*/workspace.json"} {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

func (c *copier) restore(ctx context.Context, dir string, f artifact.File) error {
	name := dir + f.Path
	if f.Link != "" {
		return makeLink(c.root, name, f.Link)
	}
	ok, err := c.matches(name, f)
	if err == nil && !ok {
		var escaped string
		if escaped, err = artifact.EscapePath(f.Path); err != nil {
			return err
		}
		if err = c.fetch(ctx, dir+escaped, name); err != nil {
			return err
		}
		if ok, err = c.matches(name, f); err == nil && !ok {
			return artifact.ErrCorrupt
		}
	}
	if err != nil {
		return err
	}
	return c.root.Chmod(name, fs.FileMode(f.Mode).Perm())
}

// matches reports whether the file is there with the manifest's content.
func (c *copier) matches(name string, f artifact.File) (bool, error) {
	info, err := c.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false, err
	}
	file, err := c.root.Open(name)
	if errors.Is(err, os.ErrPermission) {
		return false, nil // its mode forbids reading: copied again, and checked before the mode is set
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return false, err
	}
	return hex.EncodeToString(hash.Sum(nil)) == f.SHA256, nil
}

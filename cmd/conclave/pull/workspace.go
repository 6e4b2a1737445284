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

// damageError lists damage of the stored workspaces. Everything else has been copied.
type damageError struct {
	Errors []error // by path
}

func (e *damageError) Error() string {
	text := e.Errors[0].Error()
	if more := len(e.Errors) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns all of the errors.
func (e *damageError) Unwrap() []error { return e.Errors }

// restoreWorkspaces sets modes and links, which only manifests record, and copies files again
// that differ. Damage in the store is a *damageError.
func (c *copier) restoreWorkspaces(ctx context.Context, names []string) error {
	var damage []error
	for _, name := range names {
		if !isManifest(name) {
			continue
		}
		dir := path.Dir(name)
		m, err := artifact.ReadJSON[artifact.Manifest](ctx, c.target, name)
		if err == nil {
			err = m.Check()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			damage = append(damage, fmt.Errorf("restore the workspace of %s: %w", dir, err))
			continue
		}
		for _, f := range m.Files {
			err := c.restore(ctx, dir+"/workspace/", f)
			if err != nil {
				err = fmt.Errorf("restore %s/workspace/%s: %w", dir, f.Path, err)
			}
			switch {
			case errors.Is(err, artifact.ErrCorrupt), errors.Is(err, artifact.ErrNotFound):
				damage = append(damage, err)
			case err != nil:
				return err
			}
		}
	}
	if len(damage) > 0 {
		return &damageError{Errors: damage}
	}
	return nil
}

// isManifest reports a manifest, unlike a file of that name in a workspace.
func isManifest(name string) bool {
	for _, pattern := range []string{"agents/*/*/workspace.json", "final/*/workspace.json", "steps/*/workspace.json"} {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

func (c *copier) restore(ctx context.Context, dir string, f artifact.File) error {
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil {
		return err
	}
	if f.Link != "" {
		return c.target.Link(ctx, dir+escaped, f.Link)
	}
	name := dir + f.Path
	matches, err := c.matches(name, f)
	if err == nil && !matches {
		if err := c.fetch(ctx, dir+escaped); err != nil {
			return err
		}
		if matches, err = c.matches(name, f); err == nil && !matches {
			return artifact.ErrCorrupt
		}
	}
	if err != nil {
		return err
	}
	return c.root.Chmod(name, fs.FileMode(f.Mode).Perm())
}

// matches reports whether the file has the manifest's content. One that may not be read does
// not match: it is copied again.
func (c *copier) matches(name string, f artifact.File) (bool, error) {
	sum, err := fileSum(c.root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return sum == f.SHA256, err
}

// fileSum returns the SHA-256 of a regular file in hex; fs.ErrNotExist if there is none.
func fileSum(root *os.Root, name string) (string, error) {
	switch info, err := root.Lstat(name); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fs.ErrNotExist
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

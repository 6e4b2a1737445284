package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"conclave/engine/artifact"
)

// DamageError says what of a session's workspaces is damaged and cannot be
// repaired from the store. All else has been copied.
type DamageError struct {
	Errors []error // by path
}

func (e *DamageError) Error() string {
	text := e.Errors[0].Error()
	if more := len(e.Errors) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns all of the errors.
func (e *DamageError) Unwrap() []error { return e.Errors }

// restoreWorkspaces gives the workspaces what only their manifests know: modes
// and links. On the way it repairs files that are not what the manifest says;
// what is wrong in the store itself is a *DamageError.
func (c *copier) restoreWorkspaces(ctx context.Context, names []string) error {
	var damage []error
	for _, name := range names {
		if path.Base(name) != "workspace.json" || !isManifest(name) {
			continue
		}
		m, err := readDocument[artifact.Manifest](c.root, name)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			damage = append(damage, fmt.Errorf("restore the workspace of %s: %w", path.Dir(name), err))
			continue
		}
		for _, f := range m.Files {
			err := c.restore(ctx, path.Dir(name)+"/workspace/", f)
			if err != nil {
				err = fmt.Errorf("restore %s/workspace/%s: %w", path.Dir(name), f.Path, err)
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
		return &DamageError{Errors: damage}
	}
	return nil
}

// isManifest reports agents/<id>/<NNN>/workspace.json, final/<id>/workspace.json and
// steps/<NNN>-<name>/workspace.json; a workspace may hold a file of that name itself.
func isManifest(name string) bool {
	for _, pattern := range []string{"agents/*/*/workspace.json", "final/*/workspace.json", "steps/*/workspace.json"} {
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
	sum, _, err := fileSum(c.root, name)
	if errors.Is(err, os.ErrPermission) {
		return false, nil // its mode forbids reading: copied again, and checked before the mode is set
	}
	return sum == f.SHA256, err
}

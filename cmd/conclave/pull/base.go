package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/base"
)

// baseManifest is the file, in a copy, with the manifest of the session's base. The
// hashes of committed manifests depend on it.
const baseManifest = "base.json"

// openBase reads the session's base, if it has one. A base that the store lacks is left
// out.
func (c *copier) openBase(ctx context.Context, session *artifact.Session) (err error) {
	if session == nil || session.Base == "" {
		return nil
	}
	hash, err := base.Parse(session.Base)
	if err != nil {
		return c.leaveOut(ctx, baseManifest, &artifact.MalformedError{Key: c.claim, Err: err})
	}
	if c.cache, err = os.MkdirTemp("", "conclave-pull-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	c.trees = base.NewTrees(c.store, c.cache, artifact.MaxBaseBytes)
	c.base, err = c.trees.Open(ctx, hash)
	if _, missing := errors.AsType[*base.MissingError](err); missing {
		return c.leaveOut(ctx, baseManifest, fmt.Errorf("%w: %w", err, artifact.ErrNotFound))
	}
	if err != nil {
		return c.leaveOut(ctx, baseManifest, err)
	}
	c.layout = c.layout.On(c.base)
	return artifact.PutJSON(ctx, c.target, baseManifest, c.base.Manifest())
}

// files returns the files of a step's workspace. For a session with a base it completes the
// stored manifest, except that of the final answer, which has only the changed files.
func (c *copier) files(ctx context.Context, name string) (artifact.Manifest, error) {
	change, err := artifact.ReadJSON[artifact.Change](ctx, c.target, name)
	if err != nil {
		return artifact.Manifest{}, err
	}
	if change.Base == "" || strings.HasPrefix(name, "final/") {
		m := artifact.Manifest{Files: change.Files}
		return m, m.Check()
	}
	if err := change.Check(c.base); err != nil {
		return artifact.Manifest{}, err
	}
	tree := change.Tree(c.base)
	if err := artifact.PutJSON(ctx, c.target, name, tree); err != nil {
		return tree, err
	}
	return tree, c.placeBase(ctx, workspaceOf(name), change)
}

// placeBase fills a new directory with the files of the base that a step has not changed.
func (c *copier) placeBase(ctx context.Context, dir string, change artifact.Change) error {
	dir = strings.TrimSuffix(dir, "/")
	if _, err := c.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err // every file is compared with the manifest
	}
	if err := c.trees.Place(ctx, c.base, c.target.URL(dir)); err != nil {
		return err
	}
	for _, name := range change.Removed {
		if err := c.root.Remove(dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// content returns a function that opens the content of a file in a workspace.
func (c *copier) content(f artifact.File) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) { return artifact.OpenFile(ctx, c.store, c.layout, f) }
}

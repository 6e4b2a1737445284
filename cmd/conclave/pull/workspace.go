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
	"strings"

	"conclave/engine/artifact"
)

// restoreWorkspaces sets file modes and creates links, which only manifests record. It copies
// files again that differ from their manifest. Unavailable files are left out.
func (c *copier) restoreWorkspaces(ctx context.Context, names []string) error {
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	for _, name := range names {
		if !isManifest(name) || c.isLeftOut(name) {
			continue
		}
		m, err := c.files(ctx, name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			c.result.LeftOut = append(c.result.LeftOut, problem{Path: name, Problem: "cannot be used, links and modes were left out: " + cause(err).Error()})
			if patch := strings.Replace(name, "workspace.json", "change.patch", 1); listed[patch] && c.root.Remove(patch) == nil {
				c.result.LeftOut = append(c.result.LeftOut, problem{Path: patch, Problem: "was left out, as " + name})
			}
			continue
		}
		dir := workspaceOf(name)
		for _, f := range m.Files {
			if escaped, err := artifact.EscapePath(f.Path); err == nil && f.SHA256 != "" && !listed[dir+escaped] {
				c.result.Files++ // a blob of the session, or a file of its base
			}
			if err := c.restoreOrLeaveOut(ctx, dir, f); err != nil {
				return fmt.Errorf("restore %s%s: %w", dir, f.Path, err)
			}
		}
	}
	return nil
}

// restoreOrLeaveOut restores a file. If the store cannot provide its content, it removes the
// file and records it as left out.
func (c *copier) restoreOrLeaveOut(ctx context.Context, dir string, f artifact.File) error {
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil || c.isLeftOut(dir+escaped) {
		return err
	}
	err = c.restore(ctx, dir, escaped, f)
	source, unavailable := errors.AsType[*sourceError](err)
	if !unavailable && !errors.Is(err, artifact.ErrCorrupt) {
		return err
	}
	if unavailable {
		err = source.err
	}
	if err := c.root.Remove(dir + f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.leaveOut(ctx, dir+escaped, err)
}

// isManifest reports whether name is the manifest of a step rather than a file of that name in a
// workspace.
func isManifest(name string) bool {
	for _, pattern := range []string{
		"agents/*/*/workspace.json", "final/*/workspace.json", "steps/*/workspace.json", "agents/*/*/partial.json", "steps/*/partial.json",
	} {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

// workspaceOf returns the directory that a manifest describes.
func workspaceOf(manifest string) string { return strings.TrimSuffix(manifest, ".json") + "/" }

// restore creates a link, or a file with the content and the mode in its manifest.
func (c *copier) restore(ctx context.Context, dir, escaped string, f artifact.File) error {
	switch {
	case f.Link != "":
		return c.target.Link(ctx, dir+escaped, f.Link)
	case f.Dir:
		return c.root.MkdirAll(dir+f.Path, 0o755)
	}
	name := dir + f.Path
	matches, err := c.matches(name, f)
	if err == nil && !matches {
		if err := c.fetch(ctx, dir+escaped, c.content(f)); err != nil {
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

// matches reports whether a file has the content in its manifest. An unreadable file does
// not match and is copied again.
func (c *copier) matches(name string, f artifact.File) (bool, error) {
	sum, err := fileSum(c.root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return sum == f.SHA256, err
}

// fileSum returns the SHA-256 of a regular file in hex, or fs.ErrNotExist.
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

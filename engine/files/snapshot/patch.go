package snapshot

import (
	"bytes"
	"context"
	"fmt"

	"conclave/engine/files/artifact"
	"conclave/engine/files/patch"
)

// Changes returns the changes that an answer made to the layout's base, with their contents;
// without a base every file is new. Files for agents alone are left out.
func Changes(ctx context.Context, store artifact.Store, layout artifact.Layout, c artifact.Change) ([]patch.Change, error) {
	c = c.Deliverable(layout.Base())
	changed := make(map[string]bool, len(c.Files)+len(c.Removed))
	for _, f := range c.Files {
		changed[f.Path] = true
	}
	for _, name := range c.Removed {
		changed[name] = true
	}
	var before, after []patch.File
	for _, f := range layout.Base().Manifest().Files {
		if !changed[f.Path] {
			continue
		}
		old, err := patchFile(ctx, store, layout, f)
		if err != nil {
			return nil, err
		}
		before = append(before, old)
	}
	for _, f := range c.Files {
		current, err := patchFile(ctx, store, layout, f)
		if err != nil {
			return nil, err
		}
		after = append(after, current)
	}
	return patch.Changes(ctx, before, after), context.Cause(ctx)
}

func patchFile(ctx context.Context, store artifact.Store, layout artifact.Layout, f artifact.File) (patch.File, error) {
	file := patch.File{Path: f.Path, Mode: patch.Regular, Content: []byte(f.Link)}
	switch {
	case f.Link != "":
		file.Mode = patch.Link
		return file, nil
	case f.Dir:
		file.Mode = patch.Dir
		return file, nil
	case f.Mode&0o100 != 0:
		file.Mode = patch.Executable
	}
	content, err := artifact.ReadFile(ctx, store, layout, f)
	if err != nil {
		return file, fmt.Errorf("read %q: %w", f.Path, err)
	}
	file.Content = content
	return file, nil
}

// Patch returns the change of an answer as a patch for git apply.
func Patch(ctx context.Context, store artifact.Store, layout artifact.Layout, c artifact.Change) ([]byte, error) {
	changes, err := Changes(ctx, store, layout, c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := patch.Write(&b, changes, patch.Style{}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

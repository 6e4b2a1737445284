package artifact

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Graft puts the files of a workspace of another layout below the directory dir
// of a base workspace, in place of what lies there, and returns the hash of the
// manifest that they make together. Content is copied inside the store.
func Graft(ctx context.Context, store Store, from Layout, files Manifest, to Layout, base Manifest, dir string) (string, error) {
	joined := Manifest{Files: slices.DeleteFunc(slices.Clone(base.Files), func(f File) bool {
		return f.Path == dir || strings.HasPrefix(f.Path, dir+"/")
	})}
	for _, f := range files.Files {
		f.Path = path.Join(dir, f.Path)
		joined.Files = append(joined.Files, f)
	}
	slices.SortFunc(joined.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := joined.Check(); err != nil {
		return "", fmt.Errorf("putting files into %s: %w", dir, err)
	}
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range files.Files {
		if f.Link == "" {
			group.Go(func() error { return store.Copy(together, from.Blob(f.SHA256), to.Blob(f.SHA256)) })
		}
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("copying files into %s: %w", dir, err)
	}
	return storeManifest(ctx, store, to, joined)
}

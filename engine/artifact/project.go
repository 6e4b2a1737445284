package artifact

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Project copies the files of a manifest to prefix, within the store, under
// their escaped paths. A directory gets the modes and the links, too; elsewhere
// they are in the manifest only. It can be repeated: the same manifest gives the
// same objects.
func Project(ctx context.Context, store Store, layout Layout, m Manifest, prefix string) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	dir, local := store.(*Dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if f.Link != "" && !local {
			continue
		}
		group.Go(func() error {
			name, err := EscapePath(f.Path)
			if err != nil {
				return err
			}
			if local {
				return dir.place(ctx, layout, f, prefix+name)
			}
			return store.Copy(ctx, layout.Blob(f.SHA256), prefix+name)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("project workspace to %q: %w", prefix, err)
	}
	return nil
}

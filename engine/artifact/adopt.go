package artifact

import (
	"context"
	"fmt"
	"os"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Adopt is Snapshot for a workspace that somebody else has left at root, and
// that nobody can be asked to mend: what no answer can have is left out with a
// warning, and all else is kept. What the ignored patterns name, in the syntax of
// .gitignore and at any depth, is left out without one. Copies of large files
// lie in scratch while they are stored, in the system's temporary directory if
// that is empty.
func Adopt(ctx context.Context, store Store, layout Layout, root *os.Root, scratch string, ignored ...string) (Manifest, string, []Warning, error) {
	ignore, err := ignoring(root)
	if err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	patterns := make([]gitignore.Pattern, 0, len(ignored))
	for _, line := range ignored {
		patterns = append(patterns, gitignore.ParsePattern(line, nil))
	}
	also := matching(patterns)
	found := &walk{root: root, lenient: true, ignore: func(path string, dir bool) bool {
		return ignore(path, dir) || also(path, dir)
	}}
	if err := found.run(ctx); err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	up := &upload{store: store, layout: layout, root: root, scratch: scratch}
	if err := up.run(ctx, found); err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	m := Manifest{Files: found.files}
	hash, err := storeManifest(ctx, store, layout, m)
	if err != nil {
		return Manifest{}, "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	return m, hash, found.warnings, nil
}

package artifact

import (
	"context"
	"fmt"
	"os"
)

// Adopt stores the workspace of another program at root. It is a Scan that leaves out, with a
// warning, the entries that no answer can have. It silently leaves out files at any depth
// that match ignored, which has the syntax of .gitignore. Large files are copied to scratch
// during the upload, or to the system's temporary directory if scratch is empty.
func Adopt(ctx context.Context, store Store, layout Layout, root *os.Root, scratch string, ignored ...string) (hash string, warnings []Warning, err error) {
	found := &walk{root: root, base: layout.base, mounts: []string{peersDir}, lenient: true}
	if err := found.ignoreAsWorkspace(); err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	found.ignoring.Add("", ignored)
	up := &upload{store: store, layout: layout, root: root, scratch: scratch}
	if err = found.run(ctx); err == nil {
		err = up.run(ctx, found)
	}
	if err == nil {
		hash, err = Manifest{Files: found.files}.Since(layout.base).store(ctx, store, layout)
	}
	if err != nil {
		return "", nil, fmt.Errorf("adopt workspace: %w", err)
	}
	return hash, found.warnings, nil
}

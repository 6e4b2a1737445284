package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// DifferenceError says how a directory differs from a manifest, by path.
type DifferenceError struct {
	Missing []string // in the manifest only
	Changed []string // other content, link or executable bit
	Extra   []string // in the directory only
}

func (e *DifferenceError) Error() string {
	var parts []string
	for _, part := range []struct {
		what  string
		paths []string
	}{{"missing", e.Missing}, {"changed", e.Changed}, {"extra", e.Extra}} {
		if n := len(part.paths); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%q…)", n, part.what, part.paths[0]))
		}
	}
	return "workspace differs from its manifest: " + strings.Join(parts, ", ") + ": restore it again"
}

// Verify compares a directory with a manifest: content, links and executable
// bits. It is nil if they agree, else a *DifferenceError or what prevented the
// comparison. What a snapshot leaves out counts as not there.
func Verify(ctx context.Context, m Manifest, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("verify workspace: %w", err)
	}
	defer root.Close()
	ignore, err := ignoring(root)
	if err != nil {
		return fmt.Errorf("verify workspace %q: %w", dir, err)
	}
	w := &walk{root: root, ignore: ignore}
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("verify workspace %q: %w", dir, err)
	}
	found := map[string]File{}
	for _, f := range w.files {
		found[f.Path] = f
	}
	diff := &DifferenceError{}
	for _, want := range m.Files {
		got, ok := found[want.Path]
		delete(found, want.Path)
		if !ok {
			diff.Missing = append(diff.Missing, want.Path)
			continue
		}
		same, err := sameFile(ctx, root, want, got)
		if err != nil {
			return fmt.Errorf("verify workspace %q: %w", dir, err)
		}
		if !same {
			diff.Changed = append(diff.Changed, want.Path)
		}
	}
	for name := range found {
		diff.Extra = append(diff.Extra, name)
	}
	slices.Sort(diff.Extra)
	if len(diff.Missing)+len(diff.Changed)+len(diff.Extra) > 0 {
		return diff
	}
	return nil
}

// sameFile compares an entry of a manifest with what a walk found.
func sameFile(ctx context.Context, root *os.Root, want, got File) (bool, error) {
	const executable = 0o100
	switch {
	case want.Link != "" || got.Link != "":
		return want.Link == got.Link, nil
	case want.Size != got.Size || want.Mode&executable != got.Mode&executable:
		return false, nil
	}
	f, err := openRegular(root, want.Path)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = copyVerified(ctx, io.Discard, f, want)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

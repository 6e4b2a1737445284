package patch

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git names objects by it
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Mode is a file's type and permission as git writes them.
type Mode string

// The modes of git's trees.
const (
	Regular    Mode = "100644"
	Executable Mode = "100755"
	Link       Mode = "120000"

	// Dir is an empty directory. Neither git nor its patches have them.
	Dir Mode = "040000"
)

// File is a file of a tree. The content of a link is its target.
type File struct {
	Path    string // slash-separated relative path
	Mode    Mode
	Content []byte
}

// Change is a changed file. Without Old the file was added, without New it was deleted,
// and with different paths it was renamed.
type Change struct {
	Old, New   *File
	Similarity int // percent of the content that a renamed file kept; 0 for other files
}

// Path returns the file's path: the new one if it was renamed.
func (c Change) Path() string {
	if c.New != nil {
		return c.New.Path
	}
	return c.Old.Path
}

func (c Change) isDir() bool {
	return (c.Old == nil || c.Old.Mode == Dir) && (c.New == nil || c.New.Mode == Dir)
}

// becomesDir reports whether a file becomes an empty directory, or an empty directory a file.
func (c Change) becomesDir() bool {
	return c.Old != nil && c.New != nil && (c.Old.Mode == Dir) != (c.New.Mode == Dir)
}

// OfFiles returns the changes without those of empty directories.
func OfFiles(changes []Change) []Change {
	var files []Change
	for _, c := range changes {
		switch {
		case c.isDir():
		case c.Old != nil && c.Old.Mode == Dir:
			files = append(files, Change{New: c.New})
		case c.New != nil && c.New.Mode == Dir:
			files = append(files, Change{Old: c.Old})
		default:
			files = append(files, c)
		}
	}
	return files
}

// Changes returns the changes from the old to the new files, sorted by path. Equal files
// are left out. If ctx ends, Changes looks for no more renames.
func Changes(ctx context.Context, old, current []File) []Change {
	before := make(map[string]*File, len(old))
	for i := range old {
		before[old[i].Path] = &old[i]
	}
	var changes []Change
	var added []*File
	for i := range current {
		f := &current[i]
		was := before[f.Path]
		switch {
		case was == nil:
			added = append(added, f)
			continue
		case was.Mode != f.Mode || !bytes.Equal(was.Content, f.Content):
			changes = append(changes, Change{Old: was, New: f})
		}
		delete(before, f.Path)
	}
	var deleted []*File
	for i := range old {
		if before[old[i].Path] != nil {
			deleted = append(deleted, &old[i])
		}
	}
	changes = append(changes, pair(ctx, deleted, added)...)
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path(), b.Path()) })
	return changes
}

// isBinary reports whether git would call the content binary: its first 8,000 bytes have a
// zero.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0
}

// object returns the name of the git object with the file's content, or zeros without a
// file.
func object(f *File) string {
	if f == nil {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // git names objects by it
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return hex.EncodeToString(h.Sum(nil))
}

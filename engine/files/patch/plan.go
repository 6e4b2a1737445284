package patch

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// planChange adds a change unless the directory already has it. It returns the path of a file that
// conflicts with the change, or an empty one.
func (a *applying) planChange(c Change, merge bool) (conflict string, err error) {
	if c.Old != nil && c.New != nil && (c.Old.Path != c.New.Path || c.becomesDir()) {
		if moved, err := a.planMove(c, merge); moved || err != nil {
			return "", err
		}
		conflict, err := a.planChange(Change{Old: c.Old}, false)
		if err != nil || conflict != "" {
			return conflict, err
		}
		return a.planChange(Change{New: c.New}, false)
	}
	planned := false
	if c.isDir() {
		planned, err = a.planDir(c)
	} else {
		planned, err = a.planFile(c, merge)
	}
	if err != nil {
		return "", fmt.Errorf("compare %s: %w", c.Path(), err)
	}
	if !planned {
		return c.Path(), nil
	}
	return "", nil
}

// planMove plans a rename of a text file that has changed in other lines.
func (a *applying) planMove(c Change, merge bool) (bool, error) {
	if !merge || c.becomesDir() {
		return false, nil
	}
	found, err := a.readFile(c.Old.Path)
	if errors.Is(err, errInTheWay) || err == nil && (found == nil || sameFile(found, c.Old)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare %s: %w", c.Old.Path, err)
	}
	there, err := a.readFile(c.New.Path)
	if err != nil || there != nil {
		return false, ignoreError(err, errInTheWay)
	}
	joined, ok := joinChanges(*c.Old, *c.New, *found)
	if ok {
		a.was[c.Old.Path] = hashContent(found.Content)
		a.removed = append(a.removed, c.Old.Path)
		a.written = append(a.written, joined)
	}
	return ok, nil
}

func (a *applying) planFile(c Change, merge bool) (bool, error) {
	found, err := a.readFile(c.Path())
	switch {
	case errors.Is(err, errInTheWay):
		return false, nil
	case err != nil:
		return false, err
	case found != nil:
		a.was[c.Path()] = hashContent(found.Content)
	}
	switch {
	case sameFile(found, c.New):
		return true, nil
	case sameFile(found, c.Old):
		if c.New == nil {
			a.removed = append(a.removed, c.Old.Path)
		} else {
			a.written = append(a.written, *c.New)
		}
		return true, nil
	case merge && found != nil && c.Old != nil && c.New != nil:
		joined, ok := joinChanges(*c.Old, *c.New, *found)
		a.written = append(a.written, joined)
		return ok, nil
	}
	return false, nil
}

// planDir plans the change of an empty directory. If the directory has files now, it is kept.
func (a *applying) planDir(c Change) (bool, error) {
	name := c.Path()
	in, err := a.isReachable(name)
	if errors.Is(err, errInTheWay) {
		return c.New == nil, nil
	}
	if err != nil {
		return false, err
	}
	info, err := a.root.Lstat(name)
	there := in && err == nil
	switch {
	case in && err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case c.New == nil:
		if there && info.IsDir() && !a.parents[name] && a.isEmptied(name) {
			a.removedDirs = append(a.removedDirs, name)
		}
	case there && !info.IsDir() && !a.gone[name]:
		return false, nil
	case !there, !info.IsDir(), a.isCleared(name):
		a.dirs = append(a.dirs, name)
	}
	return true, nil
}

func sameFile(a, b *File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && bytes.Equal(a.Content, b.Content)
}

// joinChanges merges the changes from base to both sides if they do not overlap.
func joinChanges(base, ours, theirs File) (File, bool) {
	if base.Mode == Link || ours.Mode == Link || theirs.Mode == Link || isBinary(base.Content) || isBinary(ours.Content) || isBinary(theirs.Content) {
		return File{}, false
	}
	text := string(base.Content)
	first, second := udiff.Lines(text, string(theirs.Content)), udiff.Lines(text, string(ours.Content))
	edits, ok := udiff.Merge(first, second)
	if !ok || editsTouch(first, second) {
		return File{}, false
	}
	joined, err := udiff.Apply(text, edits)
	if ours.Mode == base.Mode {
		ours.Mode = theirs.Mode
	}
	ours.Content = []byte(joined)
	return ours, err == nil
}

// editsTouch reports whether different edits of the two sides are adjacent. The order of such
// edits is ambiguous, which git also treats as a conflict.
func editsTouch(first, second []udiff.Edit) bool {
	return slices.ContainsFunc(first, func(a udiff.Edit) bool {
		return slices.ContainsFunc(second, func(b udiff.Edit) bool { return a != b && a.Start <= b.End && b.Start <= a.End })
	})
}

// errInTheWay reports that something other than a file is at a path, or that a parent of the
// path is not a directory.
var errInTheWay = errors.New("a directory or a link is in the way")

// blockedError is an errInTheWay that names the parent.
type blockedError struct {
	path string
	link bool
}

func (e *blockedError) Error() string        { return e.path + " is not a directory" }
func (e *blockedError) Is(target error) bool { return target == errInTheWay }

// readFile returns the file at a path, or nil if it is missing. A file or directory that the
// changes remove counts as missing.
func (a *applying) readFile(name string) (*File, error) {
	if in, err := a.isReachable(name); !in || err != nil {
		return nil, err
	}
	info, err := a.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.IsDir() && (a.parents[name] || a.isEmptied(name)):
		return nil, nil
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
		return nil, errInTheWay
	}
	f, err := ReadFile(a.root, name)
	return &f, err
}

// ReadFile reads a regular file or a link of a tree.
func ReadFile(root *os.Root, name string) (File, error) {
	f := File{Path: name, Mode: Regular}
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return f, err
	case info.Mode().Type() == fs.ModeSymlink:
		f.Mode = Link
		target, err := root.Readlink(name)
		f.Content = []byte(target)
		return f, err
	case info.Mode()&0o100 != 0:
		f.Mode = Executable
	}
	f.Content, err = root.ReadFile(name)
	return f, err
}

// isReachable reports whether all existing parents of a path are directories. If a parent is a file that the
// changes remove or add, it returns false; for any other file it fails with a *blockedError.
func (a *applying) isReachable(name string) (bool, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		dir := name[:i]
		info, err := a.root.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true, nil
		case err != nil:
			return false, err
		case info.IsDir():
		case a.gone[dir] || a.added[dir]:
			return false, nil
		default:
			return false, &blockedError{path: dir, link: info.Mode().Type() == fs.ModeSymlink}
		}
	}
	return true, nil
}

func (a *applying) isCleared(dir string) bool {
	below, err := listDir(a.root, dir)
	return err == nil && len(below) > 0 && a.isEmptied(dir)
}

// isEmptied reports whether a directory is empty once the changes have been made.
func (a *applying) isEmptied(dir string) bool {
	below, err := listDir(a.root, dir)
	if err != nil {
		return false
	}
	for _, entry := range below {
		name := path.Join(dir, entry.Name())
		switch {
		case !entry.IsDir():
			if !a.gone[name] {
				return false
			}
		case !a.gone[name] && !a.isCleared(name), !a.isEmptied(name):
			return false
		}
	}
	return true
}

// listDir returns the entries of a directory. Their names may be invalid for an fs.FS.
func listDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

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
	changes = append(changes, pairFiles(ctx, deleted, added)...)
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path(), b.Path()) })
	return changes
}

// isBinary reports whether git would call the content binary: its first 8,000 bytes have a zero.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0
}

// objectName returns the name of the git object with the file's content, or zeros without a file.
func objectName(f *File) string {
	if f == nil {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // git names objects by it
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return hex.EncodeToString(h.Sum(nil))
}

package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/aymanbagabas/go-udiff"
)

// plan adds a change unless the directory already has it. It returns the path of a file that
// conflicts with the change, or an empty one.
func (a *applying) plan(c Change, merge bool) (conflict string, err error) {
	if c.Old != nil && c.New != nil && (c.Old.Path != c.New.Path || c.becomesDir()) {
		if moved, err := a.planMove(c, merge); moved || err != nil {
			return "", err
		}
		conflict, err := a.plan(Change{Old: c.Old}, false)
		if err != nil || conflict != "" {
			return conflict, err
		}
		return a.plan(Change{New: c.New}, false)
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
	found, err := a.read(c.Old.Path)
	if errors.Is(err, errInTheWay) || err == nil && (found == nil || same(found, c.Old)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare %s: %w", c.Old.Path, err)
	}
	there, err := a.read(c.New.Path)
	if err != nil || there != nil {
		return false, unless(err, errInTheWay)
	}
	joined, ok := join(*c.Old, *c.New, *found)
	if ok {
		a.was[c.Old.Path] = sum(found.Content)
		a.removed = append(a.removed, c.Old.Path)
		a.written = append(a.written, joined)
	}
	return ok, nil
}

// planFile plans the change of a file at its path. It reports whether the change can be made.
func (a *applying) planFile(c Change, merge bool) (bool, error) {
	found, err := a.read(c.Path())
	switch {
	case errors.Is(err, errInTheWay):
		return false, nil
	case err != nil:
		return false, err
	case found != nil:
		a.was[c.Path()] = sum(found.Content)
	}
	switch {
	case same(found, c.New):
		return true, nil
	case same(found, c.Old):
		if c.New == nil {
			a.removed = append(a.removed, c.Old.Path)
		} else {
			a.written = append(a.written, *c.New)
		}
		return true, nil
	case merge && found != nil && c.Old != nil && c.New != nil:
		joined, ok := join(*c.Old, *c.New, *found)
		a.written = append(a.written, joined)
		return ok, nil
	}
	return false, nil
}

// planDir plans the change of an empty directory. If the directory has files now, it is kept.
func (a *applying) planDir(c Change) (bool, error) {
	name := c.Path()
	in, err := a.reachable(name)
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
		if there && info.IsDir() && !a.parents[name] && a.emptied(name) {
			a.removedDirs = append(a.removedDirs, name)
		}
	case there && !info.IsDir() && !a.gone[name]:
		return false, nil
	case !there, !info.IsDir(), a.cleared(name):
		a.dirs = append(a.dirs, name)
	}
	return true, nil
}

func same(a, b *File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && bytes.Equal(a.Content, b.Content)
}

// join merges the changes from base to both sides if they do not overlap.
func join(base, ours, theirs File) (File, bool) {
	if base.Mode == Link || ours.Mode == Link || theirs.Mode == Link || isBinary(base.Content) || isBinary(ours.Content) || isBinary(theirs.Content) {
		return File{}, false
	}
	text := string(base.Content)
	first, second := udiff.Lines(text, string(theirs.Content)), udiff.Lines(text, string(ours.Content))
	edits, ok := udiff.Merge(first, second)
	if !ok || touching(first, second) {
		return File{}, false
	}
	joined, err := udiff.Apply(text, edits)
	if ours.Mode == base.Mode {
		ours.Mode = theirs.Mode
	}
	ours.Content = []byte(joined)
	return ours, err == nil
}

// touching reports whether different edits of the two sides are adjacent. The order of such
// edits is ambiguous, which git also treats as a conflict.
func touching(first, second []udiff.Edit) bool {
	for _, a := range first {
		for _, b := range second {
			if a != b && a.Start <= b.End && b.Start <= a.End {
				return true
			}
		}
	}
	return false
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

// read returns the file at a path, or nil if it is missing. A file or directory that the
// changes remove counts as missing.
func (a *applying) read(name string) (*File, error) {
	if in, err := a.reachable(name); !in || err != nil {
		return nil, err
	}
	info, err := a.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.IsDir() && (a.parents[name] || a.emptied(name)):
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

// reachable reports whether all existing parents of a path are directories. If a parent is a
// file that the changes remove or add, it returns false; for any other file it fails with a
// *blockedError.
func (a *applying) reachable(name string) (bool, error) {
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

// cleared reports whether a directory has files and the changes remove all of them.
func (a *applying) cleared(dir string) bool {
	below, err := list(a.root, dir)
	return err == nil && len(below) > 0 && a.emptied(dir)
}

// emptied reports whether a directory is empty once the changes have been made.
func (a *applying) emptied(dir string) bool {
	below, err := list(a.root, dir)
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
		case !a.gone[name] && !a.cleared(name), !a.emptied(name):
			return false
		}
	}
	return true
}

// list returns the entries of a directory. Their names may be invalid for an fs.FS.
func list(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

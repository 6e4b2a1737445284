package patch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// edit is one edit of the directory: a rename, a directory made, or an empty one removed.
// Renames lead into the stage or out of it, so the stage shows which of them were made.
type edit struct {
	From, To string
	Sum      []byte // SHA-256 of a file that moves out of the stage
	Was      []byte // SHA-256 of a file that moves into the stage, as Apply has compared it

	Made    string
	Cleared string
	Mode    fs.FileMode // mode of the cleared directory
}

// edits returns the edits that make the planned changes, in order.
func (a *applying) edits() []edit {
	var edits []edit
	removed := map[string]bool{}
	for i, name := range a.removed {
		removed[name] = true
		edits = append(edits, edit{From: name, To: a.staged("removed", i), Was: a.was[name]})
	}
	isDir := func(name string) bool {
		info, err := a.root.Lstat(name)
		return err == nil && info.IsDir()
	}
	cleared, made := a.clearing(), map[string]bool{}
	for _, e := range cleared {
		edits = append(edits, e)
		made[e.Cleared] = false
	}
	mkdir := func(dir string) {
		var missing []edit
		for ; dir != "."; dir = path.Dir(dir) {
			there, changed := made[dir]
			if there || !changed && isDir(dir) {
				break
			}
			made[dir] = true
			missing = append(missing, edit{Made: dir})
		}
		slices.Reverse(missing)
		edits = append(edits, missing...)
	}
	for i, f := range a.written {
		mkdir(path.Dir(f.Path))
		if _, gone := made[f.Path]; !gone && !removed[f.Path] && exists(a.root, f.Path) {
			edits = append(edits, edit{From: f.Path, To: a.staged("old", i), Was: a.was[f.Path]})
		}
		edits = append(edits, edit{From: a.staged("new", i), To: f.Path, Sum: sum(f.Content)})
	}
	for _, dir := range a.dirs {
		mkdir(dir)
	}
	return edits
}

// clearing returns the edits that remove directories, the deepest first: those that are empty
// in the old tree, and those that become empty when files are removed.
func (a *applying) clearing() []edit {
	dirs := slices.Clone(a.removedDirs)
	for _, name := range a.removed {
		dirs = append(dirs, path.Dir(name))
	}
	cleared := map[string]edit{}
	for _, dir := range dirs {
		for ; dir != "."; dir = path.Dir(dir) {
			info, err := a.root.Lstat(dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil || !info.IsDir() || a.parents[dir] || slices.Contains(a.dirs, dir) || !a.emptied(dir) {
				break
			}
			cleared[dir] = edit{Cleared: dir, Mode: info.Mode().Perm()}
		}
	}
	return slices.SortedFunc(maps.Values(cleared), func(x, y edit) int {
		return cmp.Or(cmp.Compare(strings.Count(y.Cleared, "/"), strings.Count(x.Cleared, "/")), cmp.Compare(x.Cleared, y.Cleared))
	})
}

// make makes the edit. It fails with a *ConflictError for a file that would be overwritten.
func (e edit) make(root *os.Root) error {
	switch {
	case e.isPlacing() && exists(root, e.To):
		return &ConflictError{Paths: []string{e.To}}
	case e.Made != "":
		return root.Mkdir(e.Made, 0o755)
	case e.Cleared != "":
		return unless(root.Remove(e.Cleared), fs.ErrExist) // a file has been added to it
	}
	return root.Rename(e.From, e.To)
}

// revert reverts the edit, which may not have been made.
func (e edit) revert(root *os.Root) error {
	switch {
	case e.Made != "":
		if info, err := root.Lstat(e.Made); err != nil || !info.IsDir() {
			return nil
		}
		return unless(root.Remove(e.Made), fs.ErrExist)
	case e.Cleared != "":
		return unless(root.Mkdir(e.Cleared, e.Mode), fs.ErrExist)
	case e.isPlacing():
		if exists(root, e.From) || !exists(root, e.To) {
			return nil
		}
		return root.Rename(e.To, e.From)
	case !exists(root, e.To):
		return nil
	case exists(root, e.From):
		return fmt.Errorf("restore %s: another file is there now; move it away", e.From)
	}
	return root.Rename(e.To, e.From)
}

// isPlacing reports whether the edit moves a new file out of the stage.
func (e edit) isPlacing() bool { return len(e.Sum) > 0 }

// isTouched reports whether the edit was made and its file has been changed since.
func (e edit) isTouched(root *os.Root) (bool, error) {
	if !e.isPlacing() || exists(root, e.From) || !exists(root, e.To) {
		return false, nil
	}
	f, err := ReadFile(root, e.To)
	return !bytes.Equal(sum(f.Content), e.Sum), err
}

// edited returns the files that another program has edited between their comparison and the edits
// that moved them into the stage, or since. It skips edits that were not made.
func edited(root *os.Root, edits []edit, name func(edit) string) (paths []string, err error) {
	for _, e := range edits {
		if len(e.Was) == 0 {
			continue
		}
		f, err := ReadFile(root, e.To)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !bytes.Equal(sum(f.Content), e.Was):
			paths = append(paths, name(e))
		}
	}
	return paths, nil
}

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

func sum(content []byte) []byte {
	s := sha256.Sum256(content)
	return s[:]
}

// unless returns err, or nil if it is the expected one.
func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ConflictError lists files that match neither the old nor the new version of their
// change. Nothing was written.
type ConflictError struct{ Paths []string }

func (e *ConflictError) Error() string {
	return "these files match neither side of the change: " + strings.Join(e.Paths, ", ")
}

// UnrevertedError is an error of an Apply that could not revert its edits. Some files are changed
// until Recover reverts them.
type UnrevertedError struct {
	Err    error // of the change
	Revert error
}

func (e *UnrevertedError) Error() string {
	return fmt.Sprintf("%s; the files changed so far could not be put back: %s", e.Err, e.Revert)
}

func (e *UnrevertedError) Unwrap() []error { return []error{e.Err, e.Revert} }

// Options of Apply.
type Options struct {
	Check bool // write nothing

	// Merge applies a change to a text file that has changed in other lines, a rename included.
	Merge bool
}

// Apply makes all changes in a directory, or none. It returns the paths that it wrote or
// removed; paths of empty directories end in a slash. It skips changes that the directory
// already has, and fails with a *ConflictError if a file differs from the old version of its
// change. It touches nothing outside the directory and follows no links in it.
//
// If an earlier Apply was killed, Apply fails with ErrInterrupted until Recover has reverted
// it. It fails with ErrBusy while another Apply runs.
func Apply(root *os.Root, changes []Change, o Options) ([]string, error) {
	if exists(root, Stage) {
		return nil, leftStage(root, fs.ErrExist)
	}
	a := newApplying(root, changes)
	var conflict ConflictError
	for _, c := range changes {
		file, err := a.plan(c, o.Merge)
		if err != nil {
			return nil, err
		}
		if file != "" {
			conflict.Paths = append(conflict.Paths, file)
		}
	}
	if len(conflict.Paths) > 0 {
		return nil, &conflict
	}
	written := a.paths()
	if o.Check || len(written) == 0 {
		return written, nil
	}
	return written, a.run()
}

// applying is the state of one Apply.
type applying struct {
	root *os.Root

	gone    map[string]bool // paths that the changes remove
	added   map[string]bool // paths that they add or change
	parents map[string]bool // directories above those

	removed     []string // removed before anything is written
	removedDirs []string // of the old tree's empty directories; they may have files now
	written     []File
	dirs        []string // empty directories to be made
}

func newApplying(root *os.Root, changes []Change) *applying {
	a := &applying{root: root, gone: map[string]bool{}, added: map[string]bool{}, parents: map[string]bool{}}
	for _, c := range changes {
		if c.Old != nil {
			a.gone[c.Old.Path] = true
		}
	}
	for _, c := range changes {
		if c.New != nil {
			if !c.becomesDir() {
				delete(a.gone, c.New.Path)
			}
			a.added[c.New.Path] = true
			for dir := path.Dir(c.New.Path); dir != "."; dir = path.Dir(dir) {
				a.parents[dir] = true
			}
		}
	}
	return a
}

func (a *applying) paths() []string {
	paths := slices.Clone(a.removed)
	for _, f := range a.written {
		paths = append(paths, f.Path)
	}
	for _, dir := range slices.Concat(a.removedDirs, a.dirs) {
		paths = append(paths, dir+"/")
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// run makes the edits. If one fails, run reverts all of them; after a kill, Recover does.
// Removing the journal completes the change.
func (a *applying) run() error {
	lock, edits, err := a.begin()
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, e := range edits {
		if err := e.make(a.root); err != nil {
			if left := revert(a.root, edits); left != nil {
				return &UnrevertedError{Err: err, Revert: left}
			}
			return err
		}
	}
	return removeStage(a.root)
}

// begin writes the new files into the stage and records the edits. The stage is locked
// until the returned file is closed.
func (a *applying) begin() (*os.File, []edit, error) {
	lock, err := openStage(a.root)
	if err != nil {
		return nil, nil, err
	}
	edits := a.edits()
	for i, f := range a.written {
		if err == nil {
			err = a.write(staged("new", i), f)
		}
	}
	if err == nil {
		err = writeJournal(a.root, edits)
	}
	if err != nil {
		return nil, nil, errors.Join(err, removeStage(a.root), lock.Close())
	}
	return lock, edits, nil
}

// write creates a file. A file that replaces another one keeps its permissions apart from
// the executable bit.
func (a *applying) write(name string, f File) error {
	if f.Mode == Link {
		return a.root.Symlink(string(f.Content), name)
	}
	mode := fs.FileMode(0o644)
	if info, err := a.root.Lstat(f.Path); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm() &^ 0o111
	}
	if f.Mode == Executable {
		mode |= mode >> 2 & 0o111
	}
	if err := a.root.WriteFile(name, f.Content, 0o600); err != nil {
		return err
	}
	return a.root.Chmod(name, mode)
}

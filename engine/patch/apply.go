package patch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ConflictError lists the files and links that conflict with the changes. Nothing was written.
type ConflictError struct {
	Paths []string // files that match neither the old nor the new version of their change
	Links []string // links where the changes need directories
}

func (e *ConflictError) Error() string {
	var problems []string
	if len(e.Paths) > 0 {
		problems = append(problems, "these files match neither side of the change: "+strings.Join(e.Paths, ", "))
	}
	if len(e.Links) > 0 {
		problems = append(problems, "the change has files below these links, which are not followed: "+strings.Join(e.Links, ", "))
	}
	return strings.Join(problems, "; ")
}

// Options of Apply.
type Options struct {
	Check bool // whether nothing is written

	// Merge applies a change to a text file that has changed in other lines, a rename included.
	Merge bool
}

// Apply makes all changes in a directory, or none, and returns those that it made. It skips
// changes that the directory already has. It fails with a *ConflictError if a file differs
// from the old version of its change, even if another program edits it during Apply, and with an
// *UnrevertedError if it could neither make nor revert all changes. It touches nothing outside the directory and follows no links in it.
//
// If an earlier Apply was killed, Apply fails with ErrInterrupted until Recover has reverted
// it. It fails with ErrBusy while another Apply runs.
func Apply(root *os.Root, changes []Change, o Options) ([]Change, error) {
	if err := checkNames(changes); err != nil {
		return nil, err
	}
	if exists(root, Stage) {
		return nil, leftStage(root, fs.ErrExist)
	}
	a := newApplying(root, changes)
	made, err := a.planAll(changes, o.Merge)
	if err != nil || o.Check || len(made) == 0 {
		return made, err
	}
	return made, a.run()
}

// planAll plans the changes and returns those that the directory does not have.
func (a *applying) planAll(changes []Change, merge bool) ([]Change, error) {
	var conflict ConflictError
	var missing []Change
	for _, c := range changes {
		before := a.planned()
		file, err := a.plan(c, merge)
		if err != nil {
			return nil, err
		}
		if a.planned() > before {
			missing = append(missing, c)
		}
		if file != "" {
			conflict.add(a.obstacle(file))
		}
	}
	if len(conflict.Paths)+len(conflict.Links) > 0 {
		return nil, &conflict
	}
	return missing, nil
}

// obstacle returns the path that is in the way of a file, and whether it is a link above it.
func (a *applying) obstacle(file string) (string, bool) {
	_, err := a.reachable(file)
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		return blocked.path, blocked.link
	}
	return file, false
}

func (e *ConflictError) add(name string, link bool) {
	list := &e.Paths
	if link {
		list = &e.Links
	}
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// applying is the state of one Apply.
type applying struct {
	root *os.Root

	gone    map[string]bool // paths that the changes remove
	added   map[string]bool // paths that they add or change
	parents map[string]bool // parents of those directories

	was         map[string][]byte // SHA-256 of the files that are removed or replaced
	removed     []string          // removed before anything is written
	removedDirs []string          // empty directories of the old tree, to be removed; they may have files now
	written     []File
	dirs        []string // empty directories to be made
}

func newApplying(root *os.Root, changes []Change) *applying {
	a := &applying{root: root, was: map[string][]byte{}, gone: map[string]bool{}, added: map[string]bool{}, parents: map[string]bool{}}
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

// planned returns the number of planned edits.
func (a *applying) planned() int {
	return len(a.removed) + len(a.removedDirs) + len(a.written) + len(a.dirs)
}

// run makes the edits. If one fails, run reverts all of them; after a kill, Recover does.
// Removing the journal completes the change.
func (a *applying) run() error {
	lock, edits, err := a.begin()
	if err != nil {
		return err
	}
	defer lock.Close()
	return finish(a.root, edits, edits)
}

// finish makes the remaining edits, and reverts all of them if one fails.
func finish(root *os.Root, all, remaining []edit) error {
	err := makeAll(root, all, remaining)
	if err == nil {
		_ = root.RemoveAll(Stage) // Recover removes a stage without a journal
		return nil
	}
	if failed := revert(root, all); failed != nil {
		return &UnrevertedError{Err: err, Revert: failed}
	}
	return err
}

func makeAll(root *os.Root, all, remaining []edit) error {
	for _, e := range remaining {
		if err := e.make(root); err != nil {
			return err
		}
	}
	paths, err := edited(root, all)
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		return &ConflictError{Paths: paths}
	}
	return removeJournal(root)
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

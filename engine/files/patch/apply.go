package patch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
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

// Apply makes all changes in a directory, or none, and returns those that it made. It skips changes that the
// directory already has. It fails with a *ConflictError if a file differs from the old version of its change,
// even if another program edits it during Apply, with a *NameError for a reserved name, and with an
// *UnrevertedError if it could neither make nor revert all changes. It touches nothing outside the directory
// but the journal, a file in the directory journals, and follows no links in it.
//
// If an earlier Apply was killed, Apply fails with ErrInterrupted until Recover has reverted
// it. It fails with ErrBusy while another Apply runs, and with ErrForeign if the directory has a
// Stage that no journal names.
func Apply(root *os.Root, journals string, changes []Change, o Options) ([]Change, error) {
	if err := checkNames(changes); err != nil {
		return nil, err
	}
	if err := checkRepositories(root, changes); err != nil {
		return nil, err
	}
	j, err := openJournal(root, journals)
	if err != nil {
		return nil, err
	}
	defer func() { _ = j.Close() }()
	if err := j.checkFree(); err != nil {
		return nil, err
	}
	a := newApplying(root, changes)
	made, err := a.planChanges(changes, o.Merge)
	if err != nil || o.Check || len(made) == 0 {
		return made, err
	}
	return made, a.runEdits(j)
}

func (a *applying) planChanges(changes []Change, merge bool) ([]Change, error) {
	var conflict ConflictError
	var missing []Change
	for _, c := range changes {
		before := a.countPlanned()
		file, err := a.planChange(c, merge)
		if err != nil {
			return nil, err
		}
		if a.countPlanned() > before {
			missing = append(missing, c)
		}
		if file != "" {
			conflict.addPath(a.findObstacle(file))
		}
	}
	if len(conflict.Paths)+len(conflict.Links) > 0 {
		return nil, &conflict
	}
	return missing, nil
}

// findObstacle returns the path that is in the way of a file, and whether it is a link above it.
func (a *applying) findObstacle(file string) (string, bool) {
	_, err := a.isReachable(file)
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		return blocked.path, blocked.link
	}
	return file, false
}

func (e *ConflictError) addPath(name string, link bool) {
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
	root  *os.Root
	stage string // path of the directory for new and replaced files

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

func (a *applying) countPlanned() int {
	return len(a.removed) + len(a.removedDirs) + len(a.written) + len(a.dirs)
}

// runEdits makes the edits. If one fails, it reverts all of them; after a kill, Recover does.
// A journal without edits completes the change.
func (a *applying) runEdits(j *journal) error {
	edits, err := a.stageFiles(j)
	if err != nil {
		return err
	}
	return j.finishEdits(edits, edits)
}

// finishEdits makes the remaining edits, and reverts all of them if one fails.
func (j *journal) finishEdits(all, remaining []edit) error {
	err := j.makeEdits(all, remaining)
	if err == nil {
		_ = j.removeStage() // Recover removes a stage that is left
		return nil
	}
	if failed := j.revertEdits(all); failed != nil {
		return &UnrevertedError{Err: err, Revert: failed}
	}
	return err
}

func (j *journal) makeEdits(all, remaining []edit) error {
	for _, e := range remaining {
		if err := e.makeEdit(j.root); err != nil {
			return err
		}
	}
	paths, err := findEdited(j.root, all, func(e edit) string { return e.From })
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		return &ConflictError{Paths: paths}
	}
	return j.writeRecord(nil)
}

func (a *applying) stageFiles(j *journal) ([]edit, error) {
	err := j.makeStage()
	a.stage = j.stage
	edits := a.listEdits()
	for i, f := range a.written {
		if err == nil {
			err = a.writeFile(a.stagedPath("new", i), f)
		}
	}
	if err == nil {
		err = j.writeRecord(edits)
	}
	if err != nil {
		return nil, errors.Join(err, j.removeStage())
	}
	return edits, nil
}

func (a *applying) stagedPath(kind string, i int) string {
	return path.Join(a.stage, kind+strconv.Itoa(i))
}

// writeFile creates a file. A file that replaces another one keeps its permissions apart from
// the executable bit.
func (a *applying) writeFile(name string, f File) error {
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

package patch

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"conclave/engine/files/filelock"
)

// Stage is a directory in the one that Apply changes. A directory in it, with a name that nobody
// can guess, holds the new files and those that they replace. It exists only during an Apply and
// after one that was killed.
const Stage = ".conclave-apply"

// Errors of Apply and Recover.
var (
	ErrInterrupted = errors.New("an earlier apply was interrupted")
	ErrBusy        = errors.New("another apply to this directory is running")

	// ErrForeign reports a Stage without a journal: its content is not believed.
	ErrForeign = errors.New(Stage + " is in the directory, and this data directory knows of no apply there: one may be running, or was interrupted, " +
		"with another --data-dir or before the disk got another device number; repeat it there, or put back what it holds and move it away")
)

// TouchedError lists files that an interrupted Apply wrote and that have changed since.
type TouchedError struct{ Paths []string }

func (e *TouchedError) Error() string {
	return fmt.Sprintf("an earlier apply was interrupted, and these files have changed since: %s. Move them away, or remove %s, "+
		"which has their earlier versions, to keep everything as it is", strings.Join(e.Paths, ", "), Stage)
}

// UnrevertedError reports changes that an Apply could neither complete nor revert. Recover reverts them.
type UnrevertedError struct {
	Err    error // error of the change; nil for an earlier Apply
	Revert error
}

func (e *UnrevertedError) Error() string {
	reverting := fmt.Sprintf("its changes could not be reverted: %v", e.Revert)
	if e.Err == nil {
		return "an earlier apply was interrupted, and " + reverting
	}
	return fmt.Sprintf("%v; %s", e.Err, reverting)
}

func (e *UnrevertedError) Unwrap() error { return errors.Join(e.Err, e.Revert) }

// journal records the Apply that changes a directory. It lies in another directory, under the
// identity of the first one: whatever lies in a tree may have come with it. It is locked.
type journal struct {
	root  *os.Root
	file  string // path of the record
	stage string // path, in root, of the directory with the files of this Apply
	lock  *os.File
}

// record is the content of a journal. Without edits, none were made or all, and only the stage is
// left to be removed.
type record struct {
	Stage string
	Edits []edit
}

// openJournal locks the journal of a directory, which is in the directory journals. It fails with
// ErrBusy if it is locked.
func openJournal(root *os.Root, journals string) (*journal, error) {
	name, err := dirIdentity(root)
	if err == nil {
		err = os.MkdirAll(journals, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal of %s: %w", root.Name(), err)
	}
	j := &journal{root: root, file: filepath.Join(journals, name)}
	if j.lock, err = filelock.Try(j.file+".lock", filelock.Exclusive); j.lock == nil {
		return nil, cmp.Or(err, ErrBusy)
	}
	mine, err := j.lock.Stat()
	current, other := os.Stat(j.lock.Name())
	if err != nil || other != nil || !os.SameFile(mine, current) { // removed just now
		return nil, errors.Join(ErrBusy, j.lock.Close())
	}
	return j, nil
}

// Close unlocks the journal. A process that is being started may have a copy of the lock for a
// moment, so the lock's file is removed.
func (j *journal) Close() error {
	_ = os.Remove(j.lock.Name())
	return j.lock.Close()
}

func (j *journal) checkFree() error {
	if _, err := os.Lstat(j.file); err == nil {
		return ErrInterrupted
	}
	if pathExists(j.root, Stage) {
		return ErrForeign
	}
	return nil
}

func (j *journal) makeStage() error {
	j.stage = path.Join(Stage, rand.Text())
	if err := j.writeRecord(nil); err != nil {
		return err
	}
	if err := j.root.Mkdir(Stage, 0o700); err != nil {
		return err
	}
	return j.root.Mkdir(j.stage, 0o700)
}

func (j *journal) writeRecord(edits []edit) error {
	var data bytes.Buffer
	_ = gob.NewEncoder(&data).Encode(record{Stage: j.stage, Edits: edits}) // into memory
	if err := os.WriteFile(j.file+".new", data.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(j.file+".new", j.file)
}

// removeStage removes the stage and the journal. If it is killed, Recover goes on with that.
func (j *journal) removeStage() error {
	if err := j.writeRecord(nil); err != nil {
		return err
	}
	if err := j.root.RemoveAll(j.stage); err != nil {
		return err
	}
	if info, err := j.root.Lstat(Stage); err == nil && info.IsDir() {
		_ = j.root.Remove(Stage) // another program may have put files there
	}
	return ignoreError(os.Remove(j.file), fs.ErrNotExist)
}

// Recover reverts an Apply that was killed, and reports whether there was anything to
// revert. It fails with a *TouchedError if that would lose later changes, with a
// *UnrevertedError if it could not revert all of them, and with ErrBusy during an Apply.
func Recover(root *os.Root, journals string) (bool, error) {
	j, err := openJournal(root, journals)
	if err != nil {
		return false, err
	}
	defer func() { _ = j.Close() }()
	data, err := os.ReadFile(j.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var left record
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(data)).Decode(&left)
	}
	if err != nil {
		return false, fmt.Errorf("read the journal of an earlier apply, %s: %w; remove it to keep everything as it is", j.file, err)
	}
	j.stage = left.Stage
	// Without its stage the journal is of an earlier directory, or its user has given the Apply up.
	if len(left.Edits) == 0 || !pathExists(root, j.stage) {
		return false, j.removeStage()
	}
	paths, err := findEdited(root, left.Edits, func(e edit) string { return e.To })
	if err == nil && len(paths) > 0 {
		return true, &TouchedError{Paths: paths}
	}
	if err == nil {
		err = j.revertEdits(left.Edits)
	}
	if _, touched := errors.AsType[*TouchedError](err); err != nil && !touched {
		err = &UnrevertedError{Revert: err}
	}
	return true, err
}

// revertEdits reverts all edits that were made, the last one first, and removes the stage.
func (j *journal) revertEdits(edits []edit) error {
	var touched TouchedError
	for _, e := range edits {
		changed, err := e.isTouched(j.root)
		if err != nil {
			return err
		}
		if changed {
			touched.Paths = append(touched.Paths, e.To)
		}
	}
	if len(touched.Paths) > 0 {
		return &touched
	}
	for _, e := range slices.Backward(edits) {
		if err := e.revertEdit(j.root); err != nil {
			return err
		}
	}
	return j.removeStage()
}

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

// listEdits removes before it writes, so that a file can take the place of a directory and the other
// way round.
func (a *applying) listEdits() []edit {
	var edits []edit
	removed := map[string]bool{}
	for i, name := range a.removed {
		removed[name] = true
		edits = append(edits, edit{From: name, To: a.stagedPath("removed", i), Was: a.was[name]})
	}
	isDir := func(name string) bool {
		info, err := a.root.Lstat(name)
		return err == nil && info.IsDir()
	}
	cleared, made := a.clearingEdits(), map[string]bool{}
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
		if _, gone := made[f.Path]; !gone && !removed[f.Path] && pathExists(a.root, f.Path) {
			edits = append(edits, edit{From: f.Path, To: a.stagedPath("old", i), Was: a.was[f.Path]})
		}
		edits = append(edits, edit{From: a.stagedPath("new", i), To: f.Path, Sum: hashContent(f.Content)})
	}
	for _, dir := range a.dirs {
		mkdir(dir)
	}
	return edits
}

// clearingEdits returns the edits that remove directories, the deepest first: those that are empty
// in the old tree, and those that become empty when files are removed.
func (a *applying) clearingEdits() []edit {
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
			if err != nil || !info.IsDir() || a.parents[dir] || slices.Contains(a.dirs, dir) || !a.isEmptied(dir) {
				break
			}
			cleared[dir] = edit{Cleared: dir, Mode: info.Mode().Perm()}
		}
	}
	return slices.SortedFunc(maps.Values(cleared), func(x, y edit) int {
		return cmp.Or(cmp.Compare(strings.Count(y.Cleared, "/"), strings.Count(x.Cleared, "/")), cmp.Compare(x.Cleared, y.Cleared))
	})
}

// makeEdit makes the edit. It fails with a *ConflictError for a file that would be overwritten.
func (e edit) makeEdit(root *os.Root) error {
	switch {
	case e.isPlacing() && pathExists(root, e.To):
		return &ConflictError{Paths: []string{e.To}}
	case e.Made != "":
		return root.Mkdir(e.Made, 0o755)
	case e.Cleared != "":
		return ignoreError(root.Remove(e.Cleared), fs.ErrExist) // a file has been added to it
	}
	return root.Rename(e.From, e.To)
}

// revertEdit reverts the edit, which may not have been made.
func (e edit) revertEdit(root *os.Root) error {
	switch {
	case e.Made != "":
		if info, err := root.Lstat(e.Made); err != nil || !info.IsDir() {
			return nil
		}
		return ignoreError(root.Remove(e.Made), fs.ErrExist)
	case e.Cleared != "":
		return ignoreError(root.Mkdir(e.Cleared, e.Mode), fs.ErrExist)
	case e.isPlacing():
		if pathExists(root, e.From) || !pathExists(root, e.To) {
			return nil
		}
		return root.Rename(e.To, e.From)
	case !pathExists(root, e.To):
		return nil
	case pathExists(root, e.From):
		return fmt.Errorf("restore %s: another file is there now; move it away", e.From)
	}
	return root.Rename(e.To, e.From)
}

func (e edit) isPlacing() bool { return len(e.Sum) > 0 }

// isTouched reports whether the edit was made and its file has been changed since.
func (e edit) isTouched(root *os.Root) (bool, error) {
	if !e.isPlacing() || pathExists(root, e.From) || !pathExists(root, e.To) {
		return false, nil
	}
	f, err := ReadFile(root, e.To)
	return !bytes.Equal(hashContent(f.Content), e.Sum), err
}

// findEdited returns the files that another program has edited between their comparison and the edits
// that moved them into the stage, or since. It skips edits that were not made.
func findEdited(root *os.Root, edits []edit, name func(edit) string) (paths []string, err error) {
	for _, e := range edits {
		if len(e.Was) == 0 {
			continue
		}
		f, err := ReadFile(root, e.To)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !bytes.Equal(hashContent(f.Content), e.Was):
			paths = append(paths, name(e))
		}
	}
	return paths, nil
}

func pathExists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

func hashContent(content []byte) []byte {
	s := sha256.Sum256(content)
	return s[:]
}

func ignoreError(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

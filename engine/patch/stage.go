package patch

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"conclave/engine/filelock"
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

// UnrevertedError reports changes that an Apply could neither complete nor revert. Recover
// reverts them.
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
	name, err := identity(root)
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

// check fails unless an Apply may begin.
func (j *journal) check() error {
	if _, err := os.Lstat(j.file); err == nil {
		return ErrInterrupted
	}
	if exists(j.root, Stage) {
		return ErrForeign
	}
	return nil
}

// begin makes the stage.
func (j *journal) begin() error {
	j.stage = path.Join(Stage, rand.Text())
	if err := j.write(nil); err != nil {
		return err
	}
	if err := j.root.Mkdir(Stage, 0o700); err != nil {
		return err
	}
	return j.root.Mkdir(j.stage, 0o700)
}

// write replaces the record.
func (j *journal) write(edits []edit) error {
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(record{Stage: j.stage, Edits: edits}); err != nil {
		return err
	}
	if err := os.WriteFile(j.file+".new", data.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(j.file+".new", j.file)
}

// clean removes the stage and the journal. If it is killed, Recover goes on with that.
func (j *journal) clean() error {
	if err := j.write(nil); err != nil {
		return err
	}
	if err := j.root.RemoveAll(j.stage); err != nil {
		return err
	}
	if info, err := j.root.Lstat(Stage); err == nil && info.IsDir() {
		_ = j.root.Remove(Stage) // another program may have put files there
	}
	return unless(os.Remove(j.file), fs.ErrNotExist)
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
	if len(left.Edits) == 0 || !exists(root, j.stage) {
		return false, j.clean()
	}
	paths, err := edited(root, left.Edits, func(e edit) string { return e.To })
	if err == nil && len(paths) > 0 {
		return true, &TouchedError{Paths: paths}
	}
	if err == nil {
		err = j.revert(left.Edits)
	}
	if _, touched := errors.AsType[*TouchedError](err); err != nil && !touched {
		err = &UnrevertedError{Revert: err}
	}
	return true, err
}

// revert reverts all edits that were made, the last one first, and removes the stage.
func (j *journal) revert(edits []edit) error {
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
		if err := e.revert(j.root); err != nil {
			return err
		}
	}
	return j.clean()
}

package patch

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/filelock"
)

// Stage is a directory in the one that Apply changes. It holds the new files, the files that
// they replace, and the journal. It exists only during an Apply and after one that was
// killed.
const Stage = ".conclave-apply"

// Files of the stage.
const (
	lockFile    = Stage + "/lock"
	journalFile = Stage + "/journal" // it exists while edits are being made or reverted
)

// Errors of Apply and Recover.
var (
	ErrInterrupted = errors.New("an earlier apply was interrupted")
	ErrBusy        = errors.New("another apply to this directory is running")
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

func staged(kind string, i int) string { return path.Join(Stage, kind+strconv.Itoa(i)) }

// Recover reverts an Apply that was killed, and reports whether there was anything to
// revert. It fails with a *TouchedError if that would lose later changes, with a
// *UnrevertedError if it could not revert all of them, and with ErrBusy during an Apply.
func Recover(root *os.Root) (bool, error) {
	if !exists(root, Stage) {
		return false, nil
	}
	lock, err := lockStage(root)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	data, err := root.ReadFile(journalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, removeStage(root)
	}
	if err != nil {
		return false, err
	}
	var edits []edit
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&edits); err != nil {
		return false, fmt.Errorf("read %s: %w", journalFile, err)
	}
	err = revert(root, edits)
	if _, touched := errors.AsType[*TouchedError](err); err != nil && !touched {
		err = &UnrevertedError{Revert: err}
	}
	return true, err
}

// openStage creates the stage and locks it. If a stage exists already, it fails with
// ErrInterrupted or ErrBusy.
func openStage(root *os.Root) (*os.File, error) {
	if err := root.Mkdir(Stage, 0o700); err != nil {
		return nil, leftStage(root, err)
	}
	return lockStage(root)
}

// leftStage returns the error for a stage that could not be created: ErrBusy or
// ErrInterrupted if one exists, and otherwise err.
func leftStage(root *os.Root, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := lockStage(root)
	if err != nil {
		return err
	}
	return errors.Join(ErrInterrupted, lock.Close())
}

func lockStage(root *os.Root) (*os.File, error) {
	lock, err := root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // the stage was removed just now
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	locked, err := filelock.TryFile(lock, filelock.Exclusive)
	if err == nil && (!locked || !isCurrent(root, lock)) {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// isCurrent reports whether the lock file is still that of the stage, which may have been
// removed and created again.
func isCurrent(root *os.Root, lock *os.File) bool {
	mine, err := lock.Stat()
	current, other := root.Lstat(lockFile)
	return err == nil && other == nil && os.SameFile(mine, current)
}

// writeJournal records the edits before the first one is made.
func writeJournal(root *os.Root, edits []edit) error {
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(edits); err != nil {
		return err
	}
	if err := root.WriteFile(journalFile+".new", data.Bytes(), 0o600); err != nil {
		return err
	}
	return root.Rename(journalFile+".new", journalFile)
}

// revert reverts all edits that were made, the last one first, and removes the stage.
func revert(root *os.Root, edits []edit) error {
	var touched TouchedError
	for _, e := range edits {
		changed, err := e.isTouched(root)
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
		if err := e.revert(root); err != nil {
			return err
		}
	}
	return removeStage(root)
}

// removeStage removes the stage. The journal goes first: without it the rest is useless.
func removeStage(root *os.Root) error {
	if err := removeJournal(root); err != nil {
		return err
	}
	return root.RemoveAll(Stage)
}

func removeJournal(root *os.Root) error { return unless(root.Remove(journalFile), fs.ErrNotExist) }

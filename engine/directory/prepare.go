package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"conclave/engine/artifact"
)

// UnwritableError reports a directory that cannot store a step, so that none is
// begun.
type UnwritableError struct{ Err error }

func (e *UnwritableError) Error() string {
	return e.Err.Error() + ": the session directory has to be writable, on a file system with locks and hard links; nothing was started"
}

func (e *UnwritableError) Unwrap() error { return e.Err }

// directories are the ones that a step makes if they are missing.
var directories = []string{locksDir, artifact.TempDir, "agents", "blobs", "blobs/sha256", "journal"}

// Usable refuses a directory in which a step of runner would fail after its model
// calls, because other files have the names of its directories and documents. The
// error is an *UnreadableError or *ObstructedError.
func Usable(root *os.Root, runner string) error {
	for _, name := range append(directories[:len(directories):len(directories)], "agents/"+runner) {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return &UnreadableError{Path: name, Problem: "cannot be read: " + cause(err)}
		case !info.IsDir():
			return &UnreadableError{Path: name, Problem: "is " + kind(info.Mode()) + ", not a directory"}
		}
	}
	last := "agents/" + runner + "/last_action.json"
	if info, err := root.Lstat(last); err == nil && info.IsDir() {
		return &ObstructedError{Path: last}
	}
	return nil
}

// ObstructedError reports a directory with the name of a step's file.
type ObstructedError struct{ Path string }

func (e *ObstructedError) Error() string {
	return e.Path + " is a directory: remove it, or name another session directory"
}

// Reserve returns the first free ID of agent_a to agent_z, for an agent without an
// ID of its own, and makes its directory. Concurrent calls get different IDs.
func Reserve(root *os.Root) (string, error) {
	if err := root.Mkdir("agents", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &UnwritableError{Err: fmt.Errorf("making the directory of agents: %w", err)}
	}
	for letter := 'a'; letter <= 'z'; letter++ {
		id := "agent_" + string(letter)
		err := root.Mkdir("agents/"+id, 0o755)
		switch {
		case err == nil:
			return id, nil
		case !errors.Is(err, fs.ErrExist):
			return "", &UnwritableError{Err: fmt.Errorf("making the directory of %s: %w", id, err)}
		}
	}
	return "", errors.New("agent_a to agent_z are all taken: give the agent an id of its own")
}

// CriteriaFile holds the criteria by which the answers of a directory are
// evaluated.
const CriteriaFile = "eval_criteria.json"

// Criteria returns the content of the criteria file, nil if it is missing.
func Criteria(root *os.Root) ([]byte, error) {
	data, err := readFile(root, CriteriaFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", CriteriaFile, err)
	}
	return data, nil
}

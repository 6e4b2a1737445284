package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"conclave/engine/artifact"
)

// UnwritableError says that no step can be kept in the directory, so that none is
// begun.
type UnwritableError struct{ Err error }

func (e *UnwritableError) Error() string {
	return e.Err.Error() + ": the session directory has to be writable, on a file system with locks and hard links; nothing was started"
}

func (e *UnwritableError) Unwrap() error { return e.Err }

// directories are those that a step makes where they are not there.
var directories = []string{locksDir, artifact.TempDir, "agents", "blobs", "blobs/sha256", "journal"}

// Usable looks for what would break a step of runner off when it is paid already:
// something else where it keeps its directories and documents. The error is an
// *UnreadableError.
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

// ObstructedError says that there is a directory where a step writes a file.
type ObstructedError struct{ Path string }

func (e *ObstructedError) Error() string {
	return e.Path + " is a directory: remove it, or name another session directory"
}

// Reserve takes the first free of agent_a to agent_z for an agent that has no ID
// of its own, by making its directory: of two who do so at once, each gets
// another one.
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

// CriteriaFile holds what the answers in a directory are judged by.
const CriteriaFile = "eval_criteria.json"

// Criteria reads the criteria file as it is, nil if there is none.
func Criteria(root *os.Root) ([]byte, error) {
	data, err := readFile(root, CriteriaFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", CriteriaFile, err)
	}
	return data, nil
}

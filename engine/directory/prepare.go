package directory

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"conclave/engine/artifact"
	"conclave/engine/team"
)

// UnusableError reports that no step can begin because a directory cannot be read or cannot
// store one.
type UnusableError struct {
	Err    error
	Remedy string // empty for a directory that cannot be written
}

func (e *UnusableError) Error() string {
	const writable = "the session directory has to be writable, on a file system with locks and hard links; nothing was started"
	return e.Err.Error() + ": " + cmp.Or(e.Remedy, writable)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// unreadable returns the error of a path that is not a readable directory.
func unreadable(path, problem string) error {
	return &UnusableError{
		Err:    errors.New(path + " " + problem),
		Remedy: "make it a directory that can be read, or name another session directory",
	}
}

// directories lists the directories that a step creates if they are missing.
var directories = []string{locksDir, artifact.TempDir, "agents", "blobs", "blobs/sha256", "journal"}

// Usable refuses a directory in which other files have the names of the directories and
// documents of runner's next step, which would fail after its model calls. The error is an
// *UnusableError.
func Usable(root *os.Root, runner string) error {
	for _, name := range append(directories[:len(directories):len(directories)], "agents/"+runner) {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return unreadable(name, "cannot be read: "+cause(err))
		case !info.IsDir():
			return unreadable(name, "is "+kind(info.Mode())+", not a directory")
		}
	}
	last := "agents/" + runner + "/last_action.json"
	if info, err := root.Lstat(last); err == nil && info.IsDir() {
		return &UnusableError{Err: errors.New(last + " is a directory"), Remedy: "remove it, or name another session directory"}
	}
	return nil
}

// Reserve finds an ID for an agent that has none: the first free one of agent_a to agent_z.
// It creates the agent's directory, so concurrent calls return different IDs.
func Reserve(root *os.Root) (string, error) {
	if err := root.Mkdir("agents", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &UnusableError{Err: fmt.Errorf("making the directory of agents: %w", err)}
	}
	for letter := 'a'; letter <= 'z'; letter++ {
		id := "agent_" + string(letter)
		err := root.Mkdir("agents/"+id, 0o755)
		switch {
		case err == nil:
			return id, nil
		case !errors.Is(err, fs.ErrExist):
			return "", &UnusableError{Err: fmt.Errorf("making the directory of %s: %w", id, err)}
		}
	}
	return "", errors.New("agent_a to agent_z are all taken: give the agent an id of its own")
}

// Turns returns the earlier turns in history.json, or nil if it is missing.
func Turns(root *os.Root) ([]artifact.Turn, error) {
	data, err := readFile(root, team.HistoryFile)
	if data == nil && err == nil {
		return nil, nil
	}
	var turns []artifact.Turn
	if err == nil {
		if err = json.Unmarshal(data, &turns); err != nil {
			err = fmt.Errorf("is not a list of objects with query and answer: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w", team.HistoryFile, err)
	}
	return turns, nil
}

// CriteriaFile holds the criteria by which the answers of a directory are
// evaluated.
const CriteriaFile = "eval_criteria.json"

// Criteria returns the content of the criteria file, or nil if it is missing.
func Criteria(root *os.Root) ([]byte, error) {
	data, err := readFile(root, CriteriaFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", CriteriaFile, err)
	}
	return data, nil
}

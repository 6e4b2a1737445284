package inputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"conclave/cmd/conclave/cli"
)

// memory is the file in the data directory with the local directory of a session's
// or run's base. No store and no history contains a path of this machine.
type memory struct {
	Store     string `json:"store"`     // store of the session
	Directory string `json:"directory"` // absolute path
}

func memoryFile(conn *cli.Connection, id string) (string, error) {
	dir, err := conn.KeepDir()
	return filepath.Join(dir, "bases", "sessions", id+".json"), err
}

// Remember records the directory of a session's base. A failure is only a warning,
// because `apply` merely loses its default directory.
func Remember(conn *cli.Connection, id, dir string) {
	if dir == "" {
		return
	}
	if err := rememberDirectory(conn, id, dir); err != nil {
		conn.Warnf("the directory of the base is not remembered, `apply` will need --to: %v", err)
	}
}

func rememberDirectory(conn *cli.Connection, id, dir string) error {
	file, err := memoryFile(conn, id)
	if err != nil {
		return err
	}
	data, err := json.Marshal(memory{Store: conn.Store.URL(""), Directory: dir})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	return err
}

// Directory returns the directory that a session's base was uploaded from, or "" if it is unknown.
func Directory(conn *cli.Connection, id string) (string, error) {
	file, err := memoryFile(conn, id)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return "", fmt.Errorf("read the directory of the base of %s: %w; name one with --to DIR", id, err)
	}
	if m.Store != conn.Store.URL("") {
		return "", nil // a session of that ID in another store
	}
	return m.Directory, nil
}

// Forget deletes the record of a deleted session or run.
func Forget(conn *cli.Connection, id string) {
	if file, err := memoryFile(conn, id); err == nil {
		_ = os.Remove(file)
	}
}

package scratch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"conclave/engine/filelock"
)

// The kinds of directories, by which their names begin.
const (
	Worker = "conclave-worker-" // workspaces of steps, or HOMEs of MCP servers
	Shell  = "conclave-shell-"  // the trial of a worker's sandbox
	Probe  = "sandbox-probe-"   // the probe of the host's sandbox
)

// made matches the name of a directory of any kind, as os.MkdirTemp makes them, or of its lock.
var made = regexp.MustCompile(`^(` + Worker + `|` + Shell + `|` + Probe + `)\d+(` + regexp.QuoteMeta(lockSuffix) + `)?$`)

const lockSuffix = ".lock"

// Dir is a temporary directory of this process.
type Dir struct {
	Path string
	lock *os.File
}

// Open sweeps parent, then makes a directory of a kind in it. An empty parent is the system's
// temporary directory.
func Open(parent, kind string) (*Dir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making the parent of a temporary directory: %w", err)
	}
	Sweep(parent)
	for {
		path, err := os.MkdirTemp(parent, kind)
		if err != nil {
			return nil, fmt.Errorf("making a temporary directory: %w", err)
		}
		lock, err := filelock.Wait(context.Background(), path+lockSuffix, filelock.Exclusive)
		if err != nil {
			_ = RemoveTree(path)
			return nil, fmt.Errorf("locking a temporary directory: %w", err)
		}
		d := &Dir{Path: path, lock: lock}
		// Before it was locked, another process may have swept it.
		if exists(path) && exists(lock.Name()) {
			return d, nil
		}
		d.Close()
	}
}

// Close removes the directory.
func (d *Dir) Close() {
	_ = RemoveTree(d.Path)
	_ = os.Remove(d.lock.Name())
	_ = d.lock.Close()
}

// Sweep removes directories that belong to this user's dead processes.
func Sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		path := filepath.Join(parent, strings.TrimSuffix(e.Name(), lockSuffix))
		if !made.MatchString(e.Name()) || exists(path) && !mine(path) || exists(path+lockSuffix) && !mine(path+lockSuffix) {
			continue
		}
		if lock, err := filelock.Try(path+lockSuffix, filelock.Exclusive); err == nil && lock != nil {
			(&Dir{Path: path, lock: lock}).Close()
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

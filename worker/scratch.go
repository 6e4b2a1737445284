package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/filelock"
)

// scratch is this process's directory for the workspaces of running steps. A
// lock beside it tells that its process lives: the lock of a killed one is
// free, and its directory is removed by the next worker.
type scratch struct {
	dir  string
	lock *os.File
}

const (
	scratchName = "conclave-worker-"
	lockSuffix  = ".lock"
)

// openScratch makes a directory in parent, the system's temporary one if empty,
// and clears away those of processes that are gone.
func openScratch(parent string) (*scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the workspaces of steps: %w", err)
	}
	sweep(parent)
	for {
		dir, err := os.MkdirTemp(parent, scratchName)
		if err != nil {
			return nil, fmt.Errorf("making a directory for the workspaces of steps: %w", err)
		}
		lock, err := filelock.Wait(context.Background(), dir+lockSuffix, filelock.Exclusive)
		if err != nil {
			_ = artifact.RemoveTree(dir)
			return nil, fmt.Errorf("locking the directory for the workspaces of steps: %w", err)
		}
		s := &scratch{dir: dir, lock: lock}
		// Another worker's sweep may have come between the lock's file and the lock.
		if _, err := os.Stat(lock.Name()); err == nil {
			return s, nil
		}
		s.close()
	}
}

// close removes the directory. A step that has not ended yet loses its
// workspace, and with it only what the next attempt makes again.
func (s *scratch) close() {
	_ = artifact.RemoveTree(s.dir)
	_ = os.Remove(s.lock.Name())
	_ = s.lock.Close()
}

// sweep removes what dead processes left behind. What cannot be removed, for
// instance because it is another user's, stays.
func sweep(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, scratchName+"*"+lockSuffix))
	for _, name := range locks {
		lock, err := filelock.Try(name, filelock.Exclusive)
		if err != nil || lock == nil {
			continue
		}
		(&scratch{dir: strings.TrimSuffix(name, lockSuffix), lock: lock}).close()
	}
}

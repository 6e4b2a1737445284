package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
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

// Scratch is a temporary directory of this process.
type Scratch struct {
	Path string
	lock *os.File
}

// OpenScratch sweeps parent, then makes a directory of a kind in it. An empty parent is the system's
// temporary directory.
func OpenScratch(parent, kind string) (*Scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("make the parent of a temporary directory: %w", err)
	}
	SweepScratch(parent)
	for {
		path, err := os.MkdirTemp(parent, kind)
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		lock, err := Wait(context.Background(), path+lockSuffix, Exclusive)
		if err != nil {
			_ = RemoveTree(path)
			return nil, fmt.Errorf("lock a temporary directory: %w", err)
		}
		d := &Scratch{Path: path, lock: lock}
		// Before it was locked, another process may have swept it.
		if pathExists(path) && pathExists(lock.Name()) {
			return d, nil
		}
		d.Close()
	}
}

// Close removes the directory.
func (d *Scratch) Close() {
	_ = RemoveTree(d.Path)
	_ = os.Remove(d.lock.Name())
	_ = d.lock.Close()
}

// SweepScratch removes directories that belong to this user's dead processes.
func SweepScratch(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		path := filepath.Join(parent, strings.TrimSuffix(e.Name(), lockSuffix))
		if !made.MatchString(e.Name()) || pathExists(path) && !isOwnFile(path) || pathExists(path+lockSuffix) && !isOwnFile(path+lockSuffix) {
			continue
		}
		if lock, err := Try(path+lockSuffix, Exclusive); err == nil && lock != nil {
			(&Scratch{Path: path, lock: lock}).Close()
		}
	}
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// RemoveTree removes a file, a link, or a directory with everything below it, even if it is
// read-only. It follows no links; a missing directory is not an error.
func RemoveTree(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return os.Remove(dir) // opening it would follow a link
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	if err = errors.Join(makeWritable(root, "."), root.Close(), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// makeWritable makes a directory and those below it writable. It does not use an fs.FS, which could
// not open every name.
func makeWritable(root *os.Root, dir string) error {
	if err := root.Chmod(dir, 0o700); err != nil {
		return err
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := makeWritable(root, path.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// mode is shared or exclusive.
type mode int

// The modes. Shared locks exclude exclusive ones; an exclusive lock excludes all others.
const (
	Shared mode = iota
	Exclusive
)

// poll is the pause between two attempts of WaitFile, which polls because a blocking lock
// call would not end with the context.
const poll = 10 * time.Millisecond

// Try opens the file, creating it if it is missing, and locks it without
// waiting. It returns nil if a conflicting lock is held.
func Try(path string, mode mode) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	switch locked, err := TryFile(f, mode); {
	case err != nil:
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w; choose a directory on a local file system", path, err)
	case !locked:
		return nil, f.Close()
	}
	return f, nil
}

// Wait opens the file, creating it if it is missing, and waits until it has locked it. It
// fails with the cause of ctx if ctx ends first.
func Wait(ctx context.Context, path string, mode mode) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := WaitFile(ctx, f, mode); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("wait for the lock on %s: %w; release it, or choose a directory on a local file system", path, err)
	}
	return f, nil
}

// WaitFile is Wait for an open file.
func WaitFile(ctx context.Context, f *os.File, mode mode) error {
	for {
		if locked, err := TryFile(f, mode); locked || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return f, nil
}

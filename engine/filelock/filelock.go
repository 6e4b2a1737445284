package filelock

import (
	"context"
	"fmt"
	"os"
	"time"
)

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
	f, err := open(path)
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
	f, err := open(path)
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

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return f, nil
}

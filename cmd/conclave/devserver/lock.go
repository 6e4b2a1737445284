package devserver

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lockPoll is how often a lock that somebody else holds is tried again. The
// system can wait for a lock, but not for a lock or a cancelled context.
const lockPoll = 10 * time.Millisecond

// lockMode says who else may hold a lock.
type lockMode int

const (
	shared lockMode = iota
	exclusive
)

// lock is a held lock on a file. It belongs to the open file: it ends when the
// last process that has the file open closes it or dies.
type lock struct {
	file *os.File
}

// tryLock takes the lock if nobody stands in the way; otherwise it returns nil.
func tryLock(path string, mode lockMode) (*lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	held, err := flock(file, mode)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w; choose a --data-dir on a local file system", path, err)
	}
	if !held {
		return nil, file.Close()
	}
	return &lock{file: file}, nil
}

// waitLock takes the lock, waiting until it can or ctx ends.
func waitLock(ctx context.Context, path string, mode lockMode) (*lock, error) {
	for {
		held, err := tryLock(path, mode)
		if held != nil || err != nil {
			return held, err
		}
		if err := pause(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

// isFree reports whether nobody holds the lock alone.
func isFree(path string) (bool, error) {
	held, err := tryLock(path, shared)
	if held == nil {
		return false, err
	}
	return true, held.release()
}

// release gives the lock back. Only the first call does anything.
func (l *lock) release() error {
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

// pause waits, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

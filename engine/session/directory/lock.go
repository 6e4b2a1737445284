package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

// locksDir has a lock file for every claim that a process works or worked on. No key can name it.
const locksDir = ".conclave-locks"

// lockWait is longer than the moment for which isHeld locks a file to test it.
const lockWait = 50 * time.Millisecond

// Lock is held by the process that works on a claim. The system releases it when the process dies.
type Lock struct {
	root *os.Root
	file *os.File
	name string
}

// Hold locks the claim with this token, which need not exist yet. It returns nil without an error if another
// process holds the lock. The error is an *UnusableError unless ctx has ended.
func Hold(ctx context.Context, root *os.Root, token string) (*Lock, error) {
	if err := root.Mkdir(locksDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &UnusableError{Err: fmt.Errorf("make the directory of locks: %w", err)}
	}
	name := lockName(token)
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, &UnusableError{Err: fmt.Errorf("lock the step: %w", err)}
	}
	waiting, stop := context.WithTimeout(ctx, lockWait)
	defer stop()
	switch err := filelock.WaitFile(waiting, f, filelock.Exclusive); {
	case err == nil:
		return &Lock{root: root, file: f, name: name}, nil
	case ctx.Err() != nil:
		return nil, errors.Join(context.Cause(ctx), f.Close())
	case waiting.Err() != nil:
		return nil, f.Close()
	default:
		return nil, errors.Join(&UnusableError{Err: fmt.Errorf("lock the step: %w", err)}, f.Close())
	}
}

// Release unlocks the claim and keeps the lock file for a later resume.
func (l *Lock) Release() { _ = l.file.Close() }

// Remove unlocks a claim that nobody will resume and removes its lock file.
func (l *Lock) Remove() {
	_ = l.root.Remove(l.name)
	l.Release()
}

// isHeld reports whether a process works on the claim with this token. If the lock cannot be
// tested, it returns false.
func isHeld(root *os.Root, token string) bool {
	f, err := openFile(root, lockName(token), fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return false
	}
	defer f.Close()
	locked, err := filelock.TryFile(f, filelock.Shared)
	return err == nil && !locked
}

// Running returns a function that reports whether a process works on an unfinished step, for Check.
func (d Directory) Running(root *os.Root) func(agent string, step int) bool {
	return func(agent string, step int) bool {
		a, _ := d.Agent(agent)
		for _, u := range a.Unfinished {
			if u.Step == step {
				return isHeld(root, u.Token)
			}
		}
		return false
	}
}

// lockName hashes the token, which another program may have written.
func lockName(token string) string {
	return locksDir + "/" + artifact.SumOf([]byte(token))[:32]
}

package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// locksDir holds a lock file for every claim that a process is, or was, at work
// on. No key can name it.
const locksDir = ".conclave-locks"

// Lock is held by the process that works on a claim, for as long as it lives: the
// system takes it from one that is killed.
type Lock struct {
	root *os.Root
	file *os.File
	name string
}

// A lock that seems taken may be looked at by somebody who asks whether it is.
const (
	lockTries = 5
	lockPause = 10 * time.Millisecond
)

// Hold locks the claim with this token, be it there already or not yet. It is nil
// without an error if another process has it. The error is an *UnwritableError
// unless ctx has ended.
func Hold(ctx context.Context, root *os.Root, token string) (*Lock, error) {
	if err := root.Mkdir(locksDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &UnwritableError{Err: fmt.Errorf("making the directory of locks: %w", err)}
	}
	name := lockName(token)
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, &UnwritableError{Err: fmt.Errorf("locking the step: %w", err)}
	}
	for try := 1; ; try++ {
		locked, err := tryLock(f, true)
		switch {
		case err != nil:
			return nil, errors.Join(&UnwritableError{Err: fmt.Errorf("locking the step: %w", err)}, f.Close())
		case locked:
			return &Lock{root: root, file: f, name: name}, nil
		case try == lockTries:
			return nil, f.Close()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(lockPause):
		}
	}
}

// Release lets go. The file stays for whoever goes on with the step.
func (l *Lock) Release() { _ = l.file.Close() }

// Remove is Release of a claim that nobody will go on with.
func (l *Lock) Remove() {
	_ = l.root.Remove(l.name)
	l.Release()
}

// held reports whether a process is at work on the claim with this token. What
// cannot be told is no.
func held(root *os.Root, token string) bool {
	f, err := open(root, lockName(token), fs.FileMode.IsRegular, "a file")
	if f == nil || err != nil {
		return false
	}
	defer f.Close()
	locked, err := tryLock(f, false)
	return err == nil && !locked
}

// Running reports of an unfinished step whether a process is at work on it, for
// Check.
func (d Directory) Running(root *os.Root) func(agent string, step int) bool {
	return func(agent string, step int) bool {
		a, _ := d.Agent(agent)
		for _, u := range a.Unfinished {
			if u.Step == step {
				return held(root, u.Token)
			}
		}
		return false
	}
}

// lockName is a file for any token: other programs may have written it.
func lockName(token string) string {
	sum := sha256.Sum256([]byte(token))
	return locksDir + "/" + hex.EncodeToString(sum[:16])
}

package localstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"conclave/engine/filelock"
)

// readyPoll is the interval at which a command checks whether a stack started by another command is
// ready.
const readyPoll = 20 * time.Millisecond

// OtherUsersFlag is the flag of `conclave dev` that sets Options.OtherUsers.
const OtherUsersFlag = "--allow-other-users"

// Options configure Join. The zero value is usable.
type Options struct {
	// Logf reports progress to people. It may be nil.
	Logf func(format string, args ...any)
	// Ports are the ports of a stack that Join starts. If a port is taken, Join fails.
	// Port 0 means the directory's previous port if it is free.
	Ports Ports
	// OtherUsers admits all users of this machine to a stack that Join starts. By
	// default the stack resets connections of users other than this one and root.
	OtherUsers bool
}

// Lease keeps the stack running until it is released or its process dies.
type Lease struct {
	Stack   Stack
	Started bool     // whether this lease's Join started the stack
	lock    *os.File // shared lock
}

// Release releases the lease without waiting for the child to exit. Further calls do nothing.
func (l *Lease) Release() error {
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("release the embedded stack: %w", err)
	}
	return nil
}

// Ends reports whether the stack stops serving within two seconds. The system closes the
// listeners of a killed process before it releases the locks.
func (l *Lease) Ends(ctx context.Context) bool {
	for deadline := time.Now().Add(2 * time.Second); ; {
		_, serves, err := directory(l.Stack.DataDir).serving()
		if err == nil && !serves {
			return true
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(readyPoll)
	}
}

// Join returns a lease on the stack that serves dataDir. Of the commands that find none, one
// starts it and all wait until it is ready.
func Join(ctx context.Context, dataDir string, opts Options) (*Lease, error) {
	dir, err := locate(dataDir)
	if err != nil {
		return nil, err
	}
	if err := dir.prepare(); err != nil {
		return nil, err
	}
	// The lease comes first, because the stack does not stop while a lease is held.
	lock, err := filelock.Wait(ctx, dir.leaseFile(), filelock.Shared)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; it belongs to another user: choose another with --data-dir", err)
	}
	if err != nil {
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	lease := &Lease{lock: lock}
	lease.Stack, lease.Started, err = dir.joinOrLaunch(ctx, opts)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	return lease, nil
}

// joinOrLaunch waits until a stack serves. The caller holds a lease.
func (d directory) joinOrLaunch(ctx context.Context, opts Options) (stack Stack, launched bool, err error) {
	for {
		stack, ok, err := d.serving()
		if ok || err != nil {
			return stack, false, err
		}
		owner, err := filelock.Try(d.lockFile(), filelock.Exclusive)
		if err != nil {
			return Stack{}, false, err
		}
		if owner == nil {
			select {
			case <-ctx.Done():
				return Stack{}, false, context.Cause(ctx)
			case <-time.After(readyPoll):
			}
			continue
		}
		stack, err = d.launch(ctx, owner, opts)
		return stack, err == nil, err
	}
}

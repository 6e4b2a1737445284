package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"conclave/engine/filelock"
)

const (
	// readyPoll is how often a command looks whether a stack that another
	// command is starting has become ready.
	readyPoll = 20 * time.Millisecond
	// maxLaunches bounds how often a start is repeated because a free port was
	// taken between being chosen and being used.
	maxLaunches = 3
)

// Options adjust Join. The zero value is good.
type Options struct {
	// Logf is told what Join is doing, for people. Nil is silence.
	Logf func(format string, args ...any)
	// Ports asks for particular ports. They count only if Join starts the
	// stack, and are refused if taken. Where zero, the stack keeps the port it
	// had the last time on this directory, if that is free.
	Ports Ports
}

// Lease keeps the stack alive. It must be kept until it is released; it is
// also released when the process that holds it dies.
type Lease struct {
	stack   Stack
	started bool
	lock    *os.File // shared
}

// Stack says what is served where.
func (l *Lease) Stack() Stack { return l.stack }

// Started reports whether this lease's Join started the stack.
func (l *Lease) Started() bool { return l.started }

// Release gives the lease back. The child goes about a second after the last
// one; Release does not wait for that. Releasing twice is harmless.
func (l *Lease) Release() error {
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("release the embedded stack: %w", err)
	}
	return nil
}

// Join returns a lease on the stack that serves dataDir, starting it if there
// is none. Of any number of commands that join at once one starts it and all
// wait until it is ready. If it cannot start, the error says why.
func Join(ctx context.Context, dataDir string, opts Options) (*Lease, error) {
	dir, err := locate(dataDir)
	if err != nil {
		return nil, err
	}
	if err := dir.prepare(); err != nil {
		return nil, err
	}
	// The lease comes first: a stack seen while holding it does not stop for
	// want of leases.
	lock, err := filelock.Wait(ctx, dir.leaseFile(), filelock.Shared)
	if err != nil {
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	lease := &Lease{lock: lock}
	lease.stack, lease.started, err = dir.joinOrLaunch(ctx, opts)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("join the embedded stack on %s: %w", dir, err)
	}
	return lease, nil
}

// joinOrLaunch waits until a stack serves and reports whether it launched it.
// The caller holds a lease.
func (d directory) joinOrLaunch(ctx context.Context, opts Options) (stack Stack, launched bool, err error) {
	for launches := 0; ; {
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
		launches++
		stack, err = d.launch(ctx, owner, opts)
		if errors.Is(err, ErrPortTaken) && launches < maxLaunches {
			continue
		}
		return stack, err == nil, err
	}
}

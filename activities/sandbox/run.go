package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"
)

// running is a started command.
type running struct {
	kill func()               // kills it with all its processes; may be called repeatedly, also after the end
	wait func() (Exit, error) // returns when none of its processes is left

	// unnamed measures its open files without a name; nil where that is impossible.
	unnamed func() (bytes int64, hidden bool)
}

// ending is the first cause for which a command is killed.
type ending struct {
	mu     sync.Mutex
	reason string
	err    error
	kill   func() // nil before the start
}

// set records the first cause and kills the command.
func (e *ending) set(reason string, err error) {
	e.mu.Lock()
	if e.reason == "" && e.err == nil {
		e.reason, e.err = reason, err
	}
	kill := e.kill
	e.mu.Unlock()
	if kill != nil {
		kill()
	}
}

// started sets the function that kills, and calls it if a cause is already set.
func (e *ending) started(kill func()) {
	e.mu.Lock()
	e.kill = kill
	decided := e.reason != "" || e.err != nil
	e.mu.Unlock()
	if decided {
		kill()
	}
}

func (e *ending) get() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reason, e.err
}

// Run runs a command and returns when all its processes are gone. A command that fails or exceeds a
// limit returns an Exit; an error is a fault of the host or the end of ctx. Concurrent calls each have
// their own limits, except for disk and files.
func (s *Sandbox) Run(ctx context.Context, c Command) (Exit, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return Exit{}, errors.New("run a command: no program is named")
	}
	if c.Dir == "" {
		c.Dir = "."
	}
	if !filepath.IsLocal(c.Dir) {
		return Exit{}, fmt.Errorf("run %s: directory %q is not inside the workspace", c.Args[0], c.Dir)
	}
	end := &ending{}
	unregister, err := s.register(func() { end.set("", errClosed) })
	if err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	defer unregister()
	exit, err := s.runLimited(ctx, c, end)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return exit, nil
}

// runLimited starts a command and enforces the limits that are measured from outside of it.
func (s *Sandbox) runLimited(ctx context.Context, c Command, end *ending) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	limits := s.options.Limits
	out := &output{limited: limits.Output > 0, left: limits.Output}
	out.full = func() { end.set(EndedOutput, out.failed) }
	start := time.Now()
	r, err := s.start(c, stream{out, c.Stdout}, stream{out, c.Stderr})
	if err != nil {
		return Exit{}, err
	}
	end.started(r.kill)
	defer context.AfterFunc(ctx, func() { end.set("", context.Cause(ctx)) })()
	if limits.Time > 0 {
		timer := time.AfterFunc(limits.Time, func() { end.set(EndedTime, nil) })
		defer timer.Stop()
	}
	quota := s.watchDisk(end, r.unnamed)
	exit, err := r.wait()
	quota.stop()
	exit.Duration = time.Since(start)

	reason, cause := end.get()
	if err := errors.Join(cause, out.failure()); err != nil {
		return exit, err
	}
	if reason != "" {
		exit.Ended = reason
	} else if err != nil {
		return exit, err
	}
	// The last measurement also makes all files readable for the worker.
	reason, err = quota.measure(true)
	if exit.Ended == "" {
		exit.Ended = reason
	}
	return exit, err
}

var errOutput = errors.New("more output than the limit")

// output passes on a command's output up to a limit for both streams together.
type output struct {
	mu      sync.Mutex
	limited bool
	left    int64
	full    func() // called at the limit
	failed  error  // of the caller's writer
}

// stream is one of the two; a nil writer discards.
type stream struct {
	out *output
	to  io.Writer
}

// Write delivers output within the limit. It fails from then on, so that the reader stops.
func (s stream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	allowed := p
	if o.limited && int64(len(p)) > o.left {
		allowed = p[:o.left]
	}
	o.left -= int64(len(allowed))
	if s.to != nil && len(allowed) > 0 {
		if n, err := s.to.Write(allowed); err != nil {
			o.failed = err
			o.full()
			return n, err
		}
	}
	if len(allowed) < len(p) {
		o.full()
		return len(allowed), errOutput
	}
	return len(p), nil
}

// failure returns the error of the caller's writer.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

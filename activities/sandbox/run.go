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

// running is a command under way.
type running struct {
	kill func()                // ends it with all it started; may be called more than once, and after the end
	wait func() (ended, error) // returns when nothing of it is left

	// unnamed is the space of its open files that no directory has; nil where nobody can tell
	unnamed func() (bytes int64, hidden bool)
}

// ended is what is known of a command at its end.
type ended struct {
	Exit
	killed bool // it did not end by itself
}

// verdict is the first cause for which a command was killed.
type verdict struct {
	mu     sync.Mutex
	reason Reason
	err    error
	kill   func()
}

// end kills for a cause; only the first one counts.
func (v *verdict) end(reason Reason, err error) {
	v.mu.Lock()
	if v.reason == "" && v.err == nil {
		v.reason, v.err = reason, err
	}
	kill := v.kill
	v.mu.Unlock()
	if kill != nil {
		kill()
	}
}

// started says what kills from now on, and kills at once if there was a cause before.
func (v *verdict) started(kill func()) {
	v.mu.Lock()
	v.kill = kill
	decided := v.reason != "" || v.err != nil
	v.mu.Unlock()
	if decided {
		kill()
	}
}

func (v *verdict) get() (Reason, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reason, v.err
}

func (s *Sandbox) run(ctx context.Context, c Command) (Exit, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return Exit{}, errors.New("run a command: no program is named")
	}
	if c.Dir == "" {
		c.Dir = "."
	}
	if !filepath.IsLocal(c.Dir) {
		return Exit{}, fmt.Errorf("run %s: directory %q is not inside the workspace", c.Args[0], c.Dir)
	}
	exit, err := s.watched(ctx, c)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return exit, nil
}

// watched runs a command, and kills it when a limit is reached that is measured from outside of it.
func (s *Sandbox) watched(ctx context.Context, c Command) (Exit, error) {
	limits := s.options.Limits
	v := &verdict{}
	finish, err := s.begin(func() { v.end("", errClosed) })
	if err != nil {
		return Exit{}, err
	}
	defer finish()
	if err := ctx.Err(); err != nil {
		return Exit{}, context.Cause(ctx)
	}
	out := &output{limited: limits.Output > 0, left: limits.Output}
	out.full = func() { v.end(EndedOutput, out.failed) }

	start := time.Now()
	r, err := s.start(c, stream{out, c.Stdout}, stream{out, c.Stderr})
	if err != nil {
		return Exit{}, err
	}
	v.started(r.kill)
	defer context.AfterFunc(ctx, func() { v.end("", context.Cause(ctx)) })()
	if limits.Time > 0 {
		timer := time.AfterFunc(limits.Time, func() { v.end(EndedTime, nil) })
		defer timer.Stop()
	}
	quota := s.watchDisk(v, r.unnamed)
	e, err := r.wait()
	quota.stop()
	e.Duration = time.Since(start)

	reason, cause := v.get()
	if err := errors.Join(cause, out.failure()); err != nil {
		return e.Exit, err
	}
	if reason != "" {
		e.Ended = reason
	} else if err != nil {
		return e.Exit, err
	}
	if e.Ended == "" {
		e.Ended, err = quota.check()
	} else {
		_, err = quota.check()
	}
	return e.Exit, err
}

var errOutput = errors.New("more output than is delivered")

// output delivers what a command writes, up to a limit for both streams together.
type output struct {
	mu      sync.Mutex
	limited bool
	left    int64
	full    func() // called when the limit is reached
	failed  error  // of the caller's writer
}

// stream is one of the two; a nil writer is one that drops.
type stream struct {
	out *output
	to  io.Writer
}

// Write delivers what fits. It fails for good once something did not, so that reading stops.
func (s stream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	fits := p
	if o.limited && int64(len(p)) > o.left {
		fits = p[:o.left]
	}
	o.left -= int64(len(fits))
	if s.to != nil && len(fits) > 0 {
		if n, err := s.to.Write(fits); err != nil {
			o.failed = err
			o.full()
			return n, err
		}
	}
	if len(fits) < len(p) {
		o.full()
		return len(fits), errOutput
	}
	return len(p), nil
}

// failure is the error of the caller's writer, if it had one.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

type running struct {
	kill func()               // kills it with all its processes; may be called repeatedly, also after the end
	wait func() (Exit, error) // returns after the end of all its processes

	// unnamed measures the command's open files without a name; nil if that is impossible.
	unnamed func() (bytes int64, hidden bool)
}

// exceeded is the error that ends a command at a limit. Its value is the name of the limit.
type exceeded string

func (e exceeded) Error() string { return "the limit of " + string(e) + " is exceeded" }

// Run runs a command and returns after all its processes have ended. A command that fails returns
// an Exit; an error means a fault of the host or the end of ctx. Concurrent calls share the limits
// of disk and files, but no other limits.
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
	if err := s.begin(); err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	defer s.runs.Done()
	exit, err := s.runLimited(ctx, c)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return exit, nil
}

// runLimited starts a command and enforces the limits that the child does not. The cause of its
// context tells why it ended the command.
func (s *Sandbox) runLimited(ctx context.Context, c Command) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.life, func() { end(errClosed) })()
	limits := s.options.Limits
	out := &output{limited: limits.Output > 0, left: limits.Output, end: end}
	start := time.Now()
	r, err := s.start(c, stream{out, c.Stdout}, stream{out, c.Stderr})
	if err != nil {
		return Exit{}, err
	}
	defer context.AfterFunc(ctx, r.kill)()
	if limit := cmp.Or(c.Time, limits.Time); limit > 0 {
		defer time.AfterFunc(limit, func() { end(exceeded(endedTime)) }).Stop()
	}
	quota := s.watchDisk(ctx, end, r.unnamed)
	exit, err := r.wait()
	quota.stop()
	exit.Duration = time.Since(start)

	cause := context.Cause(ctx)
	limit, isLimit := errors.AsType[exceeded](cause)
	switch {
	case isLimit:
		exit.Ended = string(limit)
	case cause != nil:
		return exit, cause
	case err != nil:
		return exit, err
	}
	// The final measurement also makes all files readable for the worker.
	err = quota.measure(true)
	if limit, ok := errors.AsType[exceeded](err); ok {
		exit.Ended, err = cmp.Or(exit.Ended, string(limit)), nil
	}
	return exit, err
}

// output forwards a command's output up to a limit that both streams share.
type output struct {
	mu      sync.Mutex
	limited bool
	left    int64
	end     context.CancelCauseFunc // called at the limit, or with the error of the caller's writer
}

// stream is one of the two streams of an output. A nil writer discards it.
type stream struct {
	out *output
	to  io.Writer
}

// Write forwards output up to the limit, and returns an error from then on, so that the reader
// stops.
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
			o.end(err)
			return n, err
		}
	}
	if len(allowed) < len(p) {
		o.end(exceeded(endedOutput))
		return len(allowed), exceeded(endedOutput)
	}
	return len(p), nil
}

// outputWait bounds the time that Run waits after the end of a command for output that an escaped
// process holds open.
const outputWait = 2 * time.Second

func (s *Sandbox) startUnconfined(c Command, stdout, stderr stream) (*running, error) {
	dir := filepath.Join(s.inside, c.Dir)
	program, err := lookPath(c.Args[0], searchPath(s.options.Toolchains), dir)
	if err != nil {
		return refused(err, stderr), nil
	}
	cmd := exec.Command(program)
	cmd.Args = c.Args
	cmd.Env = s.environment(c.Env)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputWait
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return refused(err, stderr), nil
	}
	ended, finish := context.WithCancel(context.Background())
	kill := func() {
		if ended.Err() == nil {
			killGroup(cmd.Process)
		}
	}
	wait := func() (Exit, error) {
		err := cmd.Wait()
		killGroup(cmd.Process)
		finish()
		return unconfinedExit(cmd.ProcessState, err)
	}
	return &running{kill: kill, wait: wait}, nil
}

// unconfinedExit converts the state of an ended process. The caller handles the output limit.
func unconfinedExit(state *os.ProcessState, err error) (Exit, error) {
	if state == nil {
		return Exit{}, err
	}
	e := Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if number, name := signalOf(state); name != "" {
		e.Code, e.Signal = 128+number, name
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, exceeded(endedOutput)) {
		return e, nil
	}
	return e, err
}

// refused returns a command that could not be started. Like a shell, it prints the error and exits.
func refused(err error, stderr stream) *running {
	return &running{kill: func() {}, wait: func() (Exit, error) {
		_, _ = stderr.Write([]byte(err.Error() + "\n")) // the writer's error ends the command
		return Exit{Code: refusalCode(err)}, nil
	}}
}

// refusalCode returns the exit code of a shell for a program that does not exist or cannot be run.
func refusalCode(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

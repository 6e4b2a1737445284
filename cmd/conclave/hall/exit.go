package hall

import (
	"context"
	"errors"
	"fmt"

	"conclave/worker/cluster"
)

// The exit codes of all commands.
const (
	ExitOK          = 0 // the command succeeded; a session has its answer
	ExitUsage       = 1 // wrong usage or configuration: nothing was started
	ExitNoAnswer    = 2 // started, but there is no answer: failed, cancelled, or still running
	ExitTimeout     = 3 // the session's time ran out
	ExitInterrupted = 4 // the command stopped watching; the session continues
)

// ExitError is an error with an exit code. If Err is nil, nothing more is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exitf returns an error with an exit code and a message.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Exit returns an error with an exit code and no message, or nil for ExitOK.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code}
}

// ExitCode returns the exit code for an error. An error without an exit code means that nothing was
// started.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitUsage
}

// report prints the error unless its message is empty, and returns its exit code.
func (c *CLI) report(err error) int {
	e, coded := errors.AsType[*ExitError](err)
	switch {
	case err == nil, coded && e.Err == nil:
	case !coded && errors.Is(err, context.Canceled):
		c.Warnf("interrupted before anything was started")
	default:
		c.Warnf("%s", cluster.Explain(err))
	}
	return ExitCode(err)
}

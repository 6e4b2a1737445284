package main

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/coordination"
	"conclave/worker/cluster"
)

// The exit codes of all commands.
const (
	exitDone        = 0 // the command did what it was asked to; a session has its answer
	exitUsage       = 1 // a usage or configuration error: nothing was started
	exitNoAnswer    = 2 // it ran, but there is no answer: failed, cancelled, or not ended yet
	exitTimeout     = 3 // the session's time ran out
	exitInterrupted = 4 // we stopped looking; the session is not affected
)

// Statuses that come from Temporal instead of the protocol.
const (
	statusCancelled = "cancelled"
	statusFailed    = string(coordination.FailedAll)
)

// endError is an error that fixes the exit code. Without a message there is
// nothing left to say.
type endError struct {
	code int
	err  error
}

func (e *endError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *endError) Unwrap() error { return e.err }

// end makes an error with an exit code and a message.
func end(code int, format string, args ...any) error {
	return &endError{code: code, err: fmt.Errorf(format, args...)}
}

// unprinted is a command that did what it was asked to and could not say so.
func unprinted(err error) error {
	if err == nil {
		return nil
	}
	return end(exitNoAnswer, "print the output: %w", err)
}

// silent ends with code after everything has been printed; nil for exitDone.
func silent(code int) error {
	if code == exitDone {
		return nil
	}
	return &endError{code: code}
}

// codeOf is the exit code for an error. What nobody classified was wrong
// before anything started.
func codeOf(err error) int {
	var e *endError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	default:
		return exitUsage
	}
}

// statusCode is the exit code for how a session ended.
func statusCode(status string) int {
	switch coordination.Status(status) {
	case coordination.Consensus, coordination.Plurality, coordination.Finished, coordination.Limit,
		coordination.Presented, coordination.OverSpent:
		return exitDone
	case coordination.Timeout:
		return exitTimeout
	default: // failed, cancelled, running
		return exitNoAnswer
	}
}

// report prints an error that has a message, and returns its exit code.
func (c *cli) report(err error) int {
	var e *endError
	switch {
	case err == nil:
	case errors.As(err, &e) && e.err == nil:
	case errors.Is(err, context.Canceled) && e == nil:
		c.complain("interrupted before anything was started")
	default:
		c.complain("%s", cluster.Explain(err))
	}
	return codeOf(err)
}

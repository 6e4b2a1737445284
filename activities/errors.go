package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/llm"
	"conclave/engine/step"
)

// Error types of activities. They are in histories and shown to people; tests
// and scripts match on them. Those of model calls are the llm.Kinds.
const (
	ConfigInvalid = "ConfigInvalid" // the team or the input cannot work; not retried
	SessionTaken  = "SessionTaken"  // another workflow owns the session's directory; not retried
	MissingKey    = "MissingKey"    // this worker lacks a key; another one may have it
	NoProvider    = "NoProvider"    // this worker lacks a provider; the one that prepared the session has it
	NoServer      = "NoServer"      // this worker lacks an MCP server; the one that prepared the session has it
	NoSandbox     = "NoSandbox"     // this host cannot confine commands as it has to; another one may
	NoProgress    = "NoProgress"    // attempts died without a word; not retried
	Internal      = "Internal"      // a fault of our own or of the machine; retried a few times
	Cancelled     = "Cancelled"     // the session ended, or was cancelled, before the step did
	WorkerStopped = "WorkerStopped" // the worker shut down in mid-step

	// ToolsUnavailable says that an MCP server did not start or could not be
	// reached; retried a few times.
	ToolsUnavailable = "ToolsUnavailable"

	// The engine's own types.
	NoAction         = step.NoAction
	TimeOver         = step.TimeOver
	WorkspaceInvalid = step.WorkspaceInvalid
	Fenced           = step.Fenced
	Storage          = step.Storage
)

// MissingKeyError says that the variable with an agent's key is not set here.
type MissingKeyError struct{ Agent, Variable string }

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("agent %s needs the environment variable %s, which is not set for this worker", e.Agent, e.Variable)
}

// NoProviderError says that this worker's configuration has no such provider.
type NoProviderError struct {
	Provider string
	Has      []string // the providers there are
}

func (e *NoProviderError) Error() string {
	has := "it has none; an operator defines providers in the file of --worker-config"
	if len(e.Has) > 0 {
		has = "it has: " + strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("this worker has no provider %q; %s", e.Provider, has)
}

// NoServerError says that neither the agent's configuration nor this worker's has
// such an MCP server.
type NoServerError struct {
	Server string
	Has    []string // the servers there are
}

func (e *NoServerError) Error() string {
	has := "it has none; an operator defines MCP servers in the file of --worker-config, a team file for local runs may define its own"
	if len(e.Has) > 0 {
		has = "it has: " + strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("this worker has no MCP server %q; %s", e.Server, has)
}

// NoSandboxError says that the shell was asked for, and that this host cannot
// confine commands as the worker's configuration demands.
type NoSandboxError struct{ Err error }

func (e *NoSandboxError) Error() string { return "no shell: " + e.Err.Error() }

// Unwrap returns what the host lacks.
func (e *NoSandboxError) Unwrap() error { return e.Err }

// ToolsUnavailableError says that tools of a step could not be opened although
// this worker has what they need: an MCP server does not start, or not answer.
type ToolsUnavailableError struct{ Err error }

func (e *ToolsUnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ToolsUnavailableError) Unwrap() error { return e.Err }

// noProgressError says that attempts of a step died without a word.
type noProgressError struct{ attempts int }

func (e *noProgressError) Error() string {
	return fmt.Sprintf("%d attempts died without progress", e.attempts)
}

// StepFailure is what the workflow learns of a step that failed, in the details
// of its error.
type StepFailure struct {
	Step  int       `json:"step"`
	Token string    `json:"token,omitempty"` // the step's execution token
	Usage llm.Usage `json:"usage"`
}

// Delays before a retry that has to wait for somebody.
const (
	keyDelay  = 10 * time.Second // until a worker that has what is missing takes the step
	stopDelay = time.Second      // until another worker is up
)

// classify gives every error of a step its class, once.
func classify(err error) step.Class {
	if carried, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return step.Class{Type: carried.Type(), Final: carried.NonRetryable()}
	}
	if class, ok := step.Classify(err); ok {
		return class
	}
	switch {
	case is[*stepTimeError](err):
		return step.Class{Type: TimeOver, Final: true}
	case is[*noProgressError](err):
		return step.Class{Type: NoProgress, Final: true}
	case is[*MissingKeyError](err):
		return step.Class{Type: MissingKey, Free: true, After: keyDelay}
	case is[*NoProviderError](err):
		return step.Class{Type: NoProvider, Free: true, After: keyDelay}
	case is[*NoServerError](err):
		return step.Class{Type: NoServer, Free: true, After: keyDelay}
	case is[*NoSandboxError](err):
		return step.Class{Type: NoSandbox, Free: true, After: keyDelay}
	case is[*ToolsUnavailableError](err):
		return step.Class{Type: ToolsUnavailable}
	case errors.Is(err, errStopped):
		return step.Class{Type: WorkerStopped, Free: true, After: stopDelay}
	case errors.Is(err, errFenced):
		return step.Class{Type: Fenced, Free: true}
	case is[*storageError](err):
		return step.Class{Type: Storage, Free: true}
	default:
		return step.Class{Type: Internal}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// applicationError is the error as Temporal carries it.
func applicationError(err error, c step.Class, details ...any) error {
	options := temporal.ApplicationErrorOptions{NonRetryable: c.Final, NextRetryDelay: c.After, Cause: err, Details: details}
	if c.Free {
		options.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(message(err), c.Type, options)
}

// message is the error's text without what the SDK adds to its own errors.
func message(err error) string {
	var classified *temporal.ApplicationError
	if errors.As(err, &classified) {
		return classified.Message()
	}
	return err.Error()
}

func invalid(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), ConfigInvalid, nil)
}

// ended reports whether err is the server's wish that the activity ends:
// cancelled, paused or reset. It is returned as it is.
func ended(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && errors.Is(err, cause) && (isCancel(cause) || isHold(cause))
}

// isCancel reports a cancellation: pushed by the server through the SDK, or
// learnt from a heartbeat.
func isCancel(cause error) bool {
	return errors.Is(cause, context.Canceled) || temporal.IsCanceledError(cause)
}

// isHold reports that the attempt ends and the step goes on later.
func isHold(cause error) bool {
	return errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset)
}

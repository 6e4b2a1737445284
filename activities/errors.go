package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/member"
	"conclave/engine/segment"
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
	NoAction      = "NoAction"      // the model came to no valid action; not retried
	TimeOver      = "TimeOver"      // the step's time was over before it came to an action; not retried
	NoProgress    = "NoProgress"    // attempts died without a word; not retried
	Internal      = "Internal"      // a fault of our own or of the machine; retried a few times
	Cancelled     = "Cancelled"     // the session ended, or was cancelled, before the step did
	WorkerStopped = "WorkerStopped" // the worker shut down in mid-step
	Fenced        = "Fenced"        // no acknowledged heartbeat: another attempt may run
	Storage       = "Storage"       // the store did not do what was asked

	// ToolsUnavailable says that an MCP server did not start or could not be
	// reached; retried a few times.
	ToolsUnavailable = "ToolsUnavailable"

	// WorkspaceInvalid says that the files of an answer cannot be stored: too
	// many, too large, or with names that no key can hold.
	WorkspaceInvalid = "WorkspaceInvalid"
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

// class is an error's type and how it is retried.
type class struct {
	kind  string
	final bool          // a retry cannot cure it
	free  bool          // not counted as an attempt without progress
	after time.Duration // before the next attempt; 0 for the policy's
}

// Delays before a retry that has to wait for somebody.
const (
	keyDelay  = 10 * time.Second // until a worker that has what is missing takes the step
	stopDelay = time.Second      // until another worker is up
)

// classify gives every error of a step its class, once.
func classify(err error) class {
	var model *llm.Error
	var rejected *loop.RejectedError
	var calls *loop.ModelCallsError
	var over *loop.TimeOverError
	var late *stepTimeError
	var key *MissingKeyError
	var provider *NoProviderError
	var server *NoServerError
	var confined *NoSandboxError
	var tools *ToolsUnavailableError
	var limit *artifact.LimitError
	var name *artifact.NameError
	var away *storageError
	var unwritten *member.UnwrittenError
	var unsaid *segment.UnwrittenError
	var dead *noProgressError
	var classified *temporal.ApplicationError
	switch {
	case errors.As(err, &classified):
		return class{kind: classified.Type(), final: classified.NonRetryable()}
	case errors.As(err, &model):
		limited := model.Kind == llm.RateLimited
		return class{kind: string(model.Kind), final: !model.Retryable(), free: limited, after: model.RetryAfter}
	case errors.As(err, &rejected), errors.As(err, &calls):
		return class{kind: NoAction, final: true}
	case errors.As(err, &over), errors.As(err, &late):
		return class{kind: TimeOver, final: true}
	case errors.As(err, &dead):
		return class{kind: NoProgress, final: true}
	case errors.As(err, &limit), errors.As(err, &name):
		return class{kind: WorkspaceInvalid, final: true}
	case errors.As(err, &key):
		return class{kind: MissingKey, free: true, after: keyDelay}
	case errors.As(err, &provider):
		return class{kind: NoProvider, free: true, after: keyDelay}
	case errors.As(err, &server):
		return class{kind: NoServer, free: true, after: keyDelay}
	case errors.As(err, &confined):
		return class{kind: NoSandbox, free: true, after: keyDelay}
	case errors.As(err, &tools):
		return class{kind: ToolsUnavailable}
	case errors.Is(err, errStopped):
		return class{kind: WorkerStopped, free: true, after: stopDelay}
	case errors.Is(err, errFenced), errors.Is(err, step.ErrOvertaken):
		return class{kind: Fenced, free: true}
	case errors.As(err, &away), errors.As(err, &unwritten), errors.As(err, &unsaid):
		return class{kind: Storage, free: true}
	default:
		return class{kind: Internal}
	}
}

// applicationError is the error as Temporal carries it.
func applicationError(err error, c class, details ...any) error {
	options := temporal.ApplicationErrorOptions{NonRetryable: c.final, NextRetryDelay: c.after, Cause: err, Details: details}
	if c.free {
		options.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(message(err), c.kind, options)
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

package activities

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"go.temporal.io/sdk/temporal"

	"conclave/engine/config"
)

// Error types of activities. They appear in workflow histories and messages, and tests and scripts
// match them. Model calls also use the llm.Kinds.
const (
	ConfigInvalid = "ConfigInvalid" // the team or the input is unusable; not retried
	SessionTaken  = "SessionTaken"  // another workflow owns the session's directory; not retried
	Unresumable   = "Unresumable"   // an ended session or run cannot be continued; not retried
	superseded    = "Superseded"    // a later run continues the session; not retried
	MissingKey    = "MissingKey"    // this worker lacks a key; another one may have it
	NoProvider    = "NoProvider"    // this worker lacks a provider that the preparing worker has
	NoServer      = "NoServer"      // this worker lacks an MCP server that the preparing worker has
	NoSandbox     = "NoSandbox"     // this host cannot confine commands as required; another one may
	NoTeam        = "NoTeam"        // this worker lacks a team that another one may have
	NoSource      = "NoSource"      // this worker lacks a source that another one may have
	NoReceiver    = "NoReceiver"    // this worker lacks a receiver of notices that the preparing worker has
	Unequipped    = "Unequipped"    // every worker lacks something of the step; it can be resumed
	Internal      = "Internal"      // a bug or a fault of the machine; retried a few times
	Cancelled     = "Cancelled"     // the session ended, or was cancelled, before the step did
	Suspended     = "Suspended"     // a pause suspended the step
	Outage        = "Outage"        // the model's server is unavailable; the step can be resumed
	WorkerLost    = "WorkerLost"    // the worker process died during the activity

	// ToolsUnavailable means that an MCP server did not start or could not be reached. The step is
	// retried a few times.
	ToolsUnavailable = "ToolsUnavailable"
)

// Invalid returns err as a final error of type ConfigInvalid, unless the cause is the machine: a full
// or broken disk makes no configuration invalid.
func Invalid(err error) error {
	broken := []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	if code, io := errors.AsType[syscall.Errno](err); io && slices.Contains(broken, code) {
		return err
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), ConfigInvalid, nil)
}

// Taken returns a final error of type SessionTaken.
func Taken(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), SessionTaken, nil)
}

// CannotGoOn returns a final error of type Unresumable.
func CannotGoOn(subject string, err error) error {
	return temporal.NewNonRetryableApplicationError(subject+" cannot go on: "+err.Error(), Unresumable, nil)
}

// Superseded returns a final error of type Superseded.
func Superseded(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), superseded, nil)
}

// LackError reports that this worker cannot provide a model or tools of an agent. Another worker
// may be able to; with Type ToolsUnavailable, a later attempt may succeed.
type LackError struct {
	Type string // MissingKey, NoProvider, NoServer, NoSandbox, NoTeam, NoSource, NoReceiver or ToolsUnavailable
	Err  error
}

func (e *LackError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LackError) Unwrap() error { return e.Err }

// LackDelay is the longest time until a better equipped worker may have taken an activity.
const LackDelay = 10 * time.Second

// NameHost adds the host of this worker to the error for a lack.
func NameHost(err error) error {
	host, _ := os.Hostname()
	return fmt.Errorf("%w (worker on %s)", err, host)
}

// Elsewhere returns the error of an activity that this worker is not equipped for: another worker
// takes it, or this one again after it was mended. Other errors are returned unchanged.
func Elsewhere(err error) error {
	lack, ok := errors.AsType[*LackError](err)
	if !ok {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(NameHost(err).Error(), lack.Type, temporal.ApplicationErrorOptions{
		NextRetryDelay: LackDelay, Cause: err, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// Lacks reports whether err is a *LackError of the given type.
func Lacks(err error, kind string) bool {
	lack, ok := errors.AsType[*LackError](err)
	return ok && lack.Type == kind
}

// Unpriced returns the error for a dollar limit on an agent whose model has no known price.
func Unpriced(agent config.Agent) error {
	return fmt.Errorf("agent %s: a limit in dollars is set, but the price of the model %s is unknown; "+
		"set price_per_million of its backend or of its provider, or set another limit instead", agent.ID, agent.Backend.Model)
}

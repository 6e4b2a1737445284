package activities

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// Error types of activities. They are in histories and shown to people; tests
// and scripts match on them. Model calls add the llm.Kinds.
const (
	ConfigInvalid = "ConfigInvalid" // the team or the input cannot work; not retried
	SessionTaken  = "SessionTaken"  // another workflow owns the session's directory; not retried
	MissingKey    = "MissingKey"    // this worker lacks a key; another one may have it
	NoProvider    = "NoProvider"    // this worker lacks a provider; the one that prepared the session has it
	NoServer      = "NoServer"      // this worker lacks an MCP server; the one that prepared the session has it
	NoSandbox     = "NoSandbox"     // this host cannot confine commands as required; another one may
	NoProgress    = "NoProgress"    // attempts died silently; not retried
	Internal      = "Internal"      // a bug or a fault of the machine; retried a few times
	Cancelled     = "Cancelled"     // the session ended, or was cancelled, before the step did
	WorkerStopped = "WorkerStopped" // the worker shut down during the step

	// ToolsUnavailable means that an MCP server did not start or could not be
	// reached; retried a few times.
	ToolsUnavailable = "ToolsUnavailable"
)

// Invalid returns err as a final error of type ConfigInvalid.
func Invalid(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), ConfigInvalid, nil)
}

// Taken returns a final error of type SessionTaken.
func Taken(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), SessionTaken, nil)
}

// MissingKeyError reports that the variable with an agent's key is not set here.
type MissingKeyError struct{ Agent, Variable string }

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("agent %s needs the environment variable %s, which is not set for this worker", e.Agent, e.Variable)
}

// NoProviderError reports that this worker's configuration lacks a provider.
type NoProviderError struct {
	Provider string
	Has      []string // the configured providers
}

func (e *NoProviderError) Error() string {
	has := "it has none; an operator defines providers in the file of --worker-config"
	if len(e.Has) > 0 {
		has = "it has: " + strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("this worker has no provider %q; %s", e.Provider, has)
}

// NoServerError reports that neither the agent's configuration nor this worker's
// has an MCP server.
type NoServerError struct {
	Server string
	Has    []string // the configured servers
}

func (e *NoServerError) Error() string {
	has := "it has none; an operator defines MCP servers in the file of --worker-config, a team file for local runs may define its own"
	if len(e.Has) > 0 {
		has = "it has: " + strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("this worker has no MCP server %q; %s", e.Server, has)
}

// NoSandboxError reports that an agent asks for the shell and this host cannot
// confine commands as the worker's configuration demands.
type NoSandboxError struct{ Err error }

func (e *NoSandboxError) Error() string { return "no shell: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *NoSandboxError) Unwrap() error { return e.Err }

// ToolsUnavailableError reports that a step's tools failed to open although this
// worker has everything they need: an MCP server does not start or answer.
type ToolsUnavailableError struct{ Err error }

func (e *ToolsUnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ToolsUnavailableError) Unwrap() error { return e.Err }

// UnpricedError reports that a limit in dollars could not be enforced because the
// price of an agent's model is unknown.
type UnpricedError struct{ Agent, Model string }

func (e *UnpricedError) Error() string {
	return fmt.Sprintf("agent %s: max_cost_usd is set, and what the model %s costs is not known; "+
		"name a provider with a price_per_million in the worker configuration, or limit max_total_tokens instead", e.Agent, e.Model)
}

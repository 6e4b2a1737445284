package attack

import (
	"context"
	"io"

	"conclave/activities/sandbox"
)

// The outcomes of an attack, for Result.Outcome.
const (
	Stopped  = "stopped"
	Open     = "open"       // it succeeded
	NotTried = "not tried"  // this host offers no way to try it; Detail has the reason
	Unknown  = "no verdict" // the check itself failed; Detail has the error
)

// Result is the outcome of one attack.
type Result struct {
	Name    string `json:"name"`
	What    string `json:"what"` // the attempt, in one sentence
	Outcome string `json:"outcome"`

	// Known is the reason why the level does not promise to stop the attack; empty if it does.
	Known string `json:"known,omitempty"`

	// Detail is the evidence of an open attack, and otherwise the error or limit that stopped it.
	Detail string `json:"detail"`

	Seconds float64 `json:"seconds"`
}

// Failed reports whether the level broke its promise or could not be judged.
func (r Result) Failed() bool {
	return r.Outcome == Unknown || r.Outcome == Open && r.Known == ""
}

// Options configure Run.
type Options struct {
	Level sandbox.Level
	Host  sandbox.Host // the result of sandbox.Probe
	Only  []string     // names of attacks; all if empty

	// Toolchains and Private are passed on to sandbox.Options, so that the attacks see the files that commands see.
	Toolchains, Private []string

	// Each is called with every result as soon as it is known; nil for no call.
	Each func(Result)
}

// ChildCommand is the hidden argument before those of RunChild with which the binary is started again.
const ChildCommand = "__attack"

// Run carries out the attacks one after the other. It refuses a host that gives less than the level
// (*sandbox.LevelError) and unknown names. Its files lie below /var/tmp: commands have their own /tmp.
func Run(ctx context.Context, o Options) ([]Result, error) {
	return run(ctx, table, o, "/var/tmp")
}

// RunChild plays one part of an attack and returns the exit code.
func RunChild(args []string, stdin io.Reader, stdout io.Writer) int {
	return runChild(table, args, stdin, stdout)
}

package attack

import (
	"context"
	"fmt"
	"io"

	"conclave/activities/sandbox"
)

// The outcomes of an attack, for Result.Outcome.
const (
	stopped  = "stopped"
	open     = "open"       // it succeeded
	notTried = "not tried"  // this host offers no way to try it; Detail has the reason
	unknown  = "no verdict" // the check itself failed; Detail has the error
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
	return r.Outcome == unknown || r.Outcome == open && r.Known == ""
}

// String formats the result on one line.
func (r Result) String() string {
	verdict, what := r.Outcome, r.What
	switch {
	case r.Outcome == open && r.Known != "":
		verdict = "open (known)"
	case r.Outcome == open:
		verdict = "OPEN"
	}
	if r.Outcome != stopped {
		what += ": " + r.Detail
	}
	return fmt.Sprintf("%-12s  %-19s  %s", verdict, r.Name, what)
}

// Totals counts attacks by their outcome.
type Totals struct {
	Stopped   int `json:"stopped"`
	Open      int `json:"open"`
	Known     int `json:"known"` // open attacks that the level does not promise to stop
	NotTried  int `json:"not_tried"`
	NoVerdict int `json:"no_verdict"`
}

// Add counts a result.
func (t *Totals) Add(r Result) {
	switch r.Outcome {
	case stopped:
		t.Stopped++
	case open:
		t.Open++
		if r.Known != "" {
			t.Known++
		}
	case notTried:
		t.NotTried++
	case unknown:
		t.NoVerdict++
	}
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

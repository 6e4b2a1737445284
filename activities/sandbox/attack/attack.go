package attack

import (
	"context"
	"fmt"
	"io"

	"conclave/activities/sandbox"
)

// Outcomes of an attack, for Result.Outcome.
const (
	stopped  = "stopped"
	open     = "open"       // the attack succeeded
	notTried = "not tried"  // this host offers no way to try it; Detail has the reason
	unknown  = "no verdict" // the check itself failed; Detail has the error
)

// Result is the outcome of one attack.
type Result struct {
	Name    string `json:"name"`
	What    string `json:"what"` // the attempt, in one sentence
	Outcome string `json:"outcome"`

	// Known is the reason why the level does not promise to stop the attack; empty if it promises to.
	Known string `json:"known,omitempty"`

	// Detail is the evidence if the attack succeeded, and otherwise the error or limit that stopped it.
	Detail string `json:"detail"`

	Seconds float64 `json:"seconds"`
}

// Failed reports whether the level failed to stop an attack that it promises to stop, or could not be judged.
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

// Totals counts attacks by outcome.
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

// Options configures Run.
type Options struct {
	Level sandbox.Level
	Host  sandbox.Host // the result of sandbox.Probe
	Only  []string     // names of attacks; all if empty

	// Toolchains and Private are passed to sandbox.Options, so that attacks see the same files as commands.
	Toolchains, Private []string

	// Each is called after every attack; it may be nil.
	Each func(Result)
}

// ChildCommand is the hidden command with which Run starts this binary again. The arguments that
// follow it are those of RunChild.
const ChildCommand = "__attack"

// Run performs the attacks one after the other. It returns a *sandbox.LevelError if the host cannot
// provide the level, and an error for unknown names. Its files are below /var/tmp, since commands
// have their own /tmp.
func Run(ctx context.Context, o Options) ([]Result, error) {
	return runAttacks(ctx, table, o, "/var/tmp")
}

// RunChild performs one part of an attack and returns the exit code.
func RunChild(args []string, stdin io.Reader, stdout io.Writer) int {
	return runChild(table, args, stdin, stdout)
}

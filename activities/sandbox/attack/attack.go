package attack

import (
	"fmt"
	"slices"

	"conclave/activities/sandbox"
)

// Outcome is the verdict on one attack.
type Outcome string

// The outcomes of an attack.
const (
	Stopped  Outcome = "stopped"
	Open     Outcome = "open"       // it worked
	NotTried Outcome = "not tried"  // this host has nothing to try it on; Detail says what
	Unknown  Outcome = "no verdict" // the machinery failed; Detail says how
)

// Result is what became of one attack.
type Result struct {
	Name    string  `json:"name"`
	What    string  `json:"what"` // what was attempted, one sentence
	Outcome Outcome `json:"outcome"`

	// Known says why the level does not promise to stop the attack; empty if it does.
	Known string `json:"known,omitempty"`

	// Detail is the evidence if it is open, and what stopped it otherwise.
	Detail string `json:"detail"`

	Seconds float64 `json:"seconds"`
}

// Failed reports whether the level does not keep what it promises, or nobody knows.
func (r Result) Failed() bool {
	return r.Outcome == Unknown || r.Outcome == Open && r.Known == ""
}

// Options say what Run tries. The zero value tries everything at level full.
type Options struct {
	Level sandbox.Level // full if empty
	Host  sandbox.Host  // what Probe found; the zero value makes Run ask
	Only  []string      // names of attacks; all if empty

	// Toolchains and Private are those of sandbox.Options: the attacks run with what commands are shown.
	Toolchains, Private []string

	// Dir is where the attacks' directories are made, and removed again; /var/tmp
	// if empty. It may not lie in /tmp, where commands have a directory of their own,
	// so that the attacker's program would not be seen.
	Dir string

	// Each is called with every result as soon as there is one; nil calls nobody.
	Each func(Result)
}

// ChildCommand is the hidden argument on which a binary that imports this package
// has to call RunChild with the arguments after it: the attacker, the worker whose
// sandbox it is in, and its victims are this binary, started again.
const ChildCommand = "__attack"

// require refuses a host that gives less than the level.
func require(l sandbox.Level, h sandbox.Host) error {
	order := []sandbox.Level{sandbox.Off, sandbox.Landlock, sandbox.Full}
	switch wanted := slices.Index(order, l); {
	case wanted < 0:
		return fmt.Errorf("there is no sandbox level %q; there are full, landlock and off", l)
	case slices.Index(order, h.Level) < wanted:
		return &sandbox.LevelError{Required: l, Given: h.Level, Missing: h.Missing}
	}
	return nil
}

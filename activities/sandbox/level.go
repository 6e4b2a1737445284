package sandbox

import (
	"fmt"
	"strings"
)

// LevelError is the refusal to run commands less confined than required.
type LevelError struct {
	Required Level
	Given    Level    // what the host gives
	Missing  []string // what is missing and the remedy, a sentence each
}

// Error says what the host lacks, and what can be done.
func (e *LevelError) Error() string {
	missing := strings.Join(e.Missing, "; ")
	if missing == "" {
		missing = "the reason is not known"
	}
	return fmt.Sprintf("commands have to run at sandbox level %q, but this host gives %q: %s (conclave sandbox check tells more; a weaker level can be set in sandbox.level)",
		e.Required, e.Given, missing)
}

// strength orders the levels; an unknown one has none.
func (l Level) strength() int {
	switch l {
	case Full:
		return 3
	case Landlock:
		return 2
	case Off:
		return 1
	default:
		return 0
	}
}

// require refuses a host that gives less than the level.
func (l Level) require(h Host) error {
	if l.strength() == 0 {
		return fmt.Errorf("sandbox level %q is none of full, landlock, off", string(l))
	}
	if h.Level.strength() < l.strength() {
		return &LevelError{Required: l, Given: h.Level, Missing: h.Missing}
	}
	return nil
}

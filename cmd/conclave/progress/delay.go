package progress

import (
	"fmt"
	"time"
)

// Delay says why something of a session does not get on.
type Delay struct {
	Agent string        // whose step it is; empty for other work
	Work  string        // what other work it is
	Why   string        // the attempt and what went wrong with the last one
	Next  time.Duration // until something is done about it; 0 or less if that is not known, or now
}

// who is what is held up.
func (d Delay) who() string {
	if d.Agent != "" {
		return Line(d.Agent)
	}
	return Line(d.Work)
}

// words say why, and what comes when.
func (d Delay) words() string {
	text := Line(d.Why)
	if d.Next > 0 {
		text += fmt.Sprintf(" in %d s", int((d.Next+time.Second-1)/time.Second))
	}
	return text
}

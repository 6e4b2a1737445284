package progress

import (
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"conclave/engine/coordination"
	sessionflow "conclave/workflows/session"
)

// Snapshot is a session at one moment.
type Snapshot struct {
	State   sessionflow.State
	News    []coordination.Entry // what happened since the last snapshot, oldest first
	Missed  int                  // how many events before those are known of only by number
	Earlier bool                 // the news happened at a time not known
	Elapsed time.Duration
	Offline bool // the models are the built-in deterministic one
	Delays  []Delay
	Holds   []Hold // none while it goes on by itself
	Revote  bool   // the round repeats a vote that was split
}

// Display shows snapshots of one session. It has two implementations: Board
// redraws a block on a terminal, Lines writes a line per event.
type Display interface {
	// Show is called at every look at the session, also without news.
	Show(s Snapshot)
	// Note shows a line that is not an event of the session.
	Note(line string)
}

// New makes a Board if out is a terminal, else Lines.
func New(out io.Writer) Display {
	if f, ok := out.(*os.File); ok && IsTerminal(out) {
		return &Board{
			screen: screen{out: out, size: terminalSize(f)},
			color:  os.Getenv("NO_COLOR") == "",
		}
	}
	return NewLines(out)
}

// Lines writes one plain line per event.
type Lines struct {
	out  io.Writer
	told map[string]bool // what was said of the delays and holds that last
}

// NewLines writes to out, terminal or not.
func NewLines(out io.Writer) Lines { return Lines{out: out, told: map[string]bool{}} }

// Show writes the news.
func (l Lines) Show(s Snapshot) {
	when := Clock(s.Elapsed)
	if s.Earlier {
		when = "earlier"
	}
	if s.Missed > 0 {
		l.write(when, fmt.Sprintf("%d events are not shown", s.Missed))
	}
	for _, e := range s.News {
		l.write(when, eventLine(e))
	}
	l.showStanding(s)
}

// showStanding writes, once for as long as it lasts, why something does not get
// on: delays that are new or have another reason, and what a person is waited
// for.
func (l Lines) showStanding(s Snapshot) {
	lasting := map[string]bool{}
	tell := func(what, text string) {
		lasting[what] = true
		if !l.told[what] {
			l.told[what] = true
			l.write(Clock(s.Elapsed), text)
		}
	}
	for _, d := range s.Delays {
		tell(d.who()+": "+d.Why, d.who()+": "+d.words())
	}
	for _, h := range s.Holds {
		tell(h.words(), h.words())
	}
	maps.DeleteFunc(l.told, func(what string, _ bool) bool { return !lasting[what] })
}

// Note writes the line.
func (l Lines) Note(line string) { _, _ = fmt.Fprintln(l.out, Line(line)) }

func (l Lines) write(when, text string) { _, _ = fmt.Fprintf(l.out, "%s %s\n", when, text) }

// eventLine is an event with its reason.
func eventLine(e coordination.Entry) string {
	text := Line(e.Text)
	if e.Reason != "" {
		text += ": " + Line(e.Reason)
	}
	return text
}

// Board redraws a block in place: who is at work, what they have, how the
// votes stand.
type Board struct {
	screen screen
	color  bool
	last   Snapshot
	drawn  bool
}

// Show redraws the block.
func (b *Board) Show(s Snapshot) {
	b.last, b.drawn = s, true
	width, height := b.screen.size()
	b.screen.draw(frame(s, width, height, b.color))
}

// Note puts the line above the block.
func (b *Board) Note(line string) {
	b.screen.print(Line(line))
	if b.drawn {
		b.Show(b.last)
	}
}

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

// Hold says why a session stands still until a person lets it go on.
type Hold struct {
	Why     string // what it stands still for
	Release string // the command that lets it go on, and what else does
}

// words say both on one line.
func (h Hold) words() string { return Line(h.Why) + "; " + Line(h.Release) }

// holdLines are both on lines of their own, so that a narrow screen does not
// cut the command off.
func holdLines(holds []Hold, color bool) []string {
	var lines []string
	for _, h := range holds {
		lines = append(lines, "  "+yellow.on(Line(h.Why), color), "    "+yellow.on(Line(h.Release), color))
	}
	return lines
}

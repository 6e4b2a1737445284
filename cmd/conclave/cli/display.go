package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
)

// Snapshot is the state of a session at one moment.
type Snapshot struct {
	State   acts.State
	News    []coordination.Entry // events since the last snapshot, oldest first
	Missed  int                  // number of earlier events that the news lack
	Started time.Time
	Elapsed time.Duration
	Offline string // words for models that no server is asked for; empty for others
	Holds   []Hold
	Revote  bool // the round repeats a split vote

	// Received are the last answers that running steps received, by agent.
	Received map[string]coordination.Entry

	Models map[string]string // names of the agents' models, as far as they are known
	Said   []string          // the first lines of answers and the reasons of votes, the newest last

	Now        time.Time // time of the activities
	Activities []Activity
}

// Receive records in received the injections among events, and returns it.
func Receive(received map[string]coordination.Entry, events []coordination.Entry) map[string]coordination.Entry {
	for _, e := range events {
		if e.Kind != coordination.EntryInjected {
			continue
		}
		if received == nil {
			received = map[string]coordination.Entry{}
		}
		received[e.Agent] = e
	}
	return received
}

// Display shows snapshots of one session. There are two implementations: board
// redraws a block on a terminal, and lines writes a line per event.
type Display interface {
	// Show shows a snapshot. It is called even if nothing has changed.
	Show(s Snapshot)
	// Note shows a line that is not an event of the session.
	Note(line string)
}

// NewDisplay returns a Display that redraws a block if out is a terminal, or else writes lines.
func NewDisplay(out io.Writer) Display {
	if f, ok := out.(*os.File); ok && hasTerminal(f) {
		return &board{
			screen: screen{out: out, size: terminalSize(f)},
			color:  os.Getenv("NO_COLOR") == "",
		}
	}
	return NewLines(out)
}

// lines writes one plain line per event.
type lines struct {
	out        io.Writer
	activities *Log
	holds      map[string]bool   // current holds
	failed     map[string]string // the first agent with each error
}

// NewLines returns a Display that writes lines to out, even if out is a terminal.
func NewLines(out io.Writer) Display {
	return lines{out: out, activities: &Log{}, holds: map[string]bool{}, failed: map[string]string{}}
}

// Show writes the events and activities since the last snapshot.
func (l lines) Show(s Snapshot) {
	if s.Missed > 0 {
		l.writeLine("earlier", fmt.Sprintf("%d events are not shown", s.Missed))
	}
	for _, e := range s.News {
		l.writeLine(s.eventTime(e), eventLine(l.joinErrors(e)))
	}
	l.showPresent(s)
}

// joinErrors returns an event. If its error was written before for another agent, it refers to that
// agent instead.
func (l lines) joinErrors(e coordination.Entry) coordination.Entry {
	if e.Kind != coordination.EntryFailed || e.Reason == "" {
		return e
	}
	if first, ok := l.failed[e.Reason]; ok && first != e.Agent {
		e.Reason = "the same error as " + first
	} else {
		l.failed[e.Reason] = e.Agent
	}
	return e
}

// eventTime returns the time of an event since the start, or "earlier" if the event has none.
func (s Snapshot) eventTime(e coordination.Entry) string {
	if e.Time.IsZero() {
		return "earlier"
	}
	return Clock(max(0, e.Time.Sub(s.Started)))
}

// showPresent writes each activity and hold once, while it lasts.
func (l lines) showPresent(s Snapshot) {
	for _, line := range append(l.activities.News(s.Activities, s.Now), l.activities.Waits(s)...) {
		l.writeLine(Clock(s.Elapsed), line)
	}
	current := map[string]bool{}
	for _, h := range s.Holds {
		text, when := Line(h.Why)+"; "+Line(h.Release), Clock(s.Elapsed)
		if !h.Since.IsZero() {
			when = Clock(h.Since.Sub(s.Started))
		}
		if current[text] = true; !l.holds[text] {
			l.holds[text] = true
			l.writeLine(when, text)
		}
	}
	maps.DeleteFunc(l.holds, func(hold string, _ bool) bool { return !current[hold] })
}

// Note writes the line.
func (l lines) Note(line string) { _, _ = fmt.Fprintln(l.out, Line(line)) }

func (l lines) writeLine(when, text string) { _, _ = fmt.Fprintf(l.out, "%s %s\n", when, text) }

func eventLine(e coordination.Entry) string {
	text := Line(e.Text)
	if e.Reason != "" {
		text += ": " + Line(e.Reason)
	}
	return text
}

// board redraws a block in place: the agents, their answers, and the votes. It is safe for concurrent
// use.
type board struct {
	screen screen
	color  bool

	mu     sync.Mutex
	last   Snapshot
	drawn  bool
	asking bool // a question stands below the block, which is not redrawn
}

// Show redraws the block.
func (b *board) Show(s Snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.drawn = s, true
	b.redraw()
}

func (b *board) redraw() {
	if width, height := b.screen.size(); b.drawn && !b.asking {
		b.screen.draw(formatFrame(b.last, width, height, b.color))
	}
}

// Note writes the line above the block.
func (b *board) Note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.screen.printAbove(Line(line))
	b.redraw()
}

// Hold is the reason why a session waits for a person.
type Hold struct {
	Why     string
	Release string // the command that resumes it, and alternatives
	Parked  bool   // it waits because something has failed, not because a person paused it

	Since time.Time // zero if it is unknown
}

// Since sets the start times of the holds for a pause and for parking.
func Since(holds []Hold, paused, parked time.Time) {
	for i := range holds {
		holds[i].Since = paused
		if holds[i].Parked {
			holds[i].Since = parked
		}
	}
}

// holdLines puts the reason and the command on separate lines, so that a narrow screen does not
// truncate the command.
func holdLines(holds []Hold, color bool) []string {
	var lines []string
	for _, h := range holds {
		lines = append(lines, "  "+yellow.on(Line(h.Why), color), "    "+yellow.on(Line(h.Release), color))
	}
	return lines
}

// screen redraws a block of lines in place. The cursor remains visible on the line below the
// block, so that a process killed at any moment leaves a usable terminal.
type screen struct {
	out   io.Writer
	size  func() (width, height int)
	shown []int // width of each line of the block
}

// draw replaces the block. It truncates lines to the width of the terminal.
func (s *screen) draw(lines []string) {
	width, _ := s.size()
	var b strings.Builder
	b.WriteString(s.moveUp(width))
	s.shown = s.shown[:0]
	for _, line := range lines {
		line = ansi.Truncate(line, width-1, "…")
		s.shown = append(s.shown, ansi.StringWidth(line))
		b.WriteString(line)
		b.WriteString(ansi.EraseLineRight + "\n")
	}
	b.WriteString(ansi.EraseScreenBelow)
	_, _ = io.WriteString(s.out, b.String())
}

// printAbove writes a line above the block. The caller draws the block again.
func (s *screen) printAbove(line string) {
	width, _ := s.size()
	_, _ = fmt.Fprint(s.out, s.moveUp(width), ansi.EraseScreenBelow, line, "\n")
	s.shown = s.shown[:0]
}

// moveUp returns the sequence that moves to the first line of the block, whose lines a narrower
// terminal may have wrapped.
func (s *screen) moveUp(width int) string {
	rows := 0
	for _, w := range s.shown {
		rows += max(1, (w+width-1)/width)
	}
	if rows == 0 {
		return "\r"
	}
	return "\r" + ansi.CursorUp(rows)
}

func terminalSize(f *os.File) func() (int, int) {
	return func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 2 || height < 2 {
			return 80, 24
		}
		return width, height
	}
}

// TerminalWidth returns the number of columns of a terminal, or 80 and false for any other stream.
func TerminalWidth(stream any) (width int, terminal bool) {
	if !isTerminal(stream) {
		return 80, false
	}
	width, _ = terminalSize(stream.(*os.File))()
	return width, true
}

// hasTerminal reports whether f is a terminal that can redraw lines.
func hasTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

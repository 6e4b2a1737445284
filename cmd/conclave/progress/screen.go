package progress

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen redraws a block of lines in place at the bottom of a terminal. The cursor
// stays visible on the line below the block, so that a process killed at any moment
// leaves a usable terminal.
type screen struct {
	out   io.Writer
	size  func() (width, height int)
	shown []int // width of each line of the block
}

// draw replaces the block. It truncates lines wider than the terminal.
func (s *screen) draw(lines []string) {
	width, _ := s.size()
	var b strings.Builder
	b.WriteString(s.up(width))
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

// print writes a line above the block, which must be drawn again.
func (s *screen) print(line string) {
	width, _ := s.size()
	_, _ = fmt.Fprint(s.out, s.up(width), ansi.EraseScreenBelow, line, "\n")
	s.shown = s.shown[:0]
}

// up moves to the first line of the block. A terminal that became narrower has
// wrapped the lines; one that became wider has joined none.
func (s *screen) up(width int) string {
	rows := 0
	for _, w := range s.shown {
		rows += max(1, (w+width-1)/width)
	}
	if rows == 0 {
		return "\r"
	}
	return "\r" + ansi.CursorUp(rows)
}

// terminalSize returns a function that reads the size of a terminal.
func terminalSize(f *os.File) func() (int, int) {
	return func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 2 || height < 2 {
			return 80, 24
		}
		return width, height
	}
}

// isTerminal reports whether f is a terminal that can redraw lines.
func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

package progress

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen redraws a block of lines in place at the bottom of a terminal. The
// cursor always rests on the line below the block and is never hidden, so that
// a process killed at any moment leaves a usable terminal.
type screen struct {
	out   io.Writer
	size  func() (width, height int)
	shown []int // the width of each line of the block
}

// draw replaces the block. Lines wider than the terminal are cut.
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

// print puts lines above the block, which has to be drawn again.
func (s *screen) print(line string) {
	width, _ := s.size()
	_, _ = fmt.Fprint(s.out, s.up(width), ansi.EraseScreenBelow, line, "\n")
	s.shown = s.shown[:0]
}

// up moves to the first line of the block. A terminal that has become narrower
// has wrapped the lines, one that has become wider may have joined none: only
// we end lines.
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

// terminalSize reads the size of the terminal behind f.
func terminalSize(f *os.File) func() (int, int) {
	return func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 2 || height < 2 {
			return 80, 24
		}
		return width, height
	}
}

// IsTerminal reports whether w is a terminal that can redraw lines.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

package patch

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"conclave/engine/text"
)

// Stat is the size of a file's change. Added and Deleted count lines; they are 0 for a binary
// file.
type Stat struct {
	Path             string
	Renamed          string // the old path of a renamed file
	Added, Deleted   int
	Binary           bool
	OldSize, NewSize int // sizes in bytes
}

// Stats returns the size of each change of a file.
func Stats(changes []Change) []Stat {
	changes = OfFiles(changes)
	stats := make([]Stat, 0, len(changes))
	for _, c := range changes {
		before, after := content(c.Old), content(c.New)
		s := Stat{Path: c.Path(), OldSize: len(before), NewSize: len(after), Binary: isBinary(before) || isBinary(after)}
		if c.Old != nil && c.Old.Path != s.Path {
			s.Renamed = c.Old.Path
		}
		if !s.Binary {
			for _, e := range udiff.Lines(string(before), string(after)) {
				s.Deleted += lines(string(before[e.Start:e.End]))
				s.Added += lines(e.New)
			}
		}
		stats = append(stats, s)
	}
	return stats
}

// Name returns the change's path as the statistics have it: both paths of a renamed file, and
// an empty directory's with a slash at its end.
func (c Change) Name() string {
	switch {
	case c.isDir():
		return Quote(c.Path() + "/")
	case c.Old != nil && c.Old.Path != c.Path():
		return moved(c.Old.Path, c.Path())
	}
	return Quote(c.Path())
}

// moved formats the paths of a file; the first one is empty unless it was renamed.
func moved(from, to string) string {
	if from == "" {
		return Quote(to)
	}
	return Quote(from) + " => " + Quote(to)
}

func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// FormatStats prints the statistics as git diff --stat does, in lines of at most width
// columns.
func FormatStats(stats []Stat, width int) string {
	longest, most, added, deleted := 0, 0, 0, 0
	names := make([]string, len(stats))
	for i, s := range stats {
		names[i] = moved(s.Renamed, s.Path)
		longest, most = max(longest, len([]rune(names[i]))), max(most, s.Added+s.Deleted)
		added, deleted = added+s.Added, deleted+s.Deleted
	}
	longest = min(longest, max(10, width-30))
	bars := max(10, width-longest-12)
	var b strings.Builder
	for i, s := range stats {
		fmt.Fprintf(&b, " %-*s | ", longest, text.TruncateStart(names[i], longest))
		if s.Binary {
			fmt.Fprintf(&b, "Bin %d -> %d bytes\n", s.OldSize, s.NewSize)
			continue
		}
		plus, minus := s.Added, s.Deleted
		if most > bars {
			plus, minus = (plus*bars+most-1)/most, (minus*bars+most-1)/most
		}
		fmt.Fprintf(&b, "%5d %s%s\n", s.Added+s.Deleted, strings.Repeat("+", plus), strings.Repeat("-", minus))
	}
	b.WriteString(" " + Count(len(stats), "file") + " changed")
	if added > 0 || deleted == 0 {
		b.WriteString(", " + Count(added, "insertion") + "(+)")
	}
	if deleted > 0 {
		b.WriteString(", " + Count(deleted, "deletion") + "(-)")
	}
	return b.String() + "\n"
}

// Count formats a number with a noun, such as "2 files".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

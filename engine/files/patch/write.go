package patch

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"conclave/engine/text"
)

// Style configures how Write prints a patch.
type Style struct {
	Colour bool // the terminal colours of git diff

	// Brief replaces the contents of binary files by a line.
	Brief bool
}

// Write prints the changes of files as a patch.
func Write(w io.Writer, changes []Change, style Style) error {
	b := bufio.NewWriter(w)
	if err := checkNames(OfFiles(changes)); err != nil {
		return err
	}
	p := printer{Writer: b, style: style}
	for _, c := range OfFiles(changes) {
		for _, part := range c.splitTypeChange() {
			if err := p.printChange(part); err != nil {
				return fmt.Errorf("write the change of %s: %w", c.Path(), err)
			}
		}
	}
	return b.Flush()
}

// splitTypeChange returns the change, or, as git does, the removal and the addition of a file that becomes a
// link or the reverse.
func (c Change) splitTypeChange() []Change {
	if c.Old != nil && c.New != nil && (c.Old.Mode == Link) != (c.New.Mode == Link) {
		return []Change{{Old: c.Old}, {New: c.New}}
	}
	return []Change{c}
}

// printer prints changes. The final Flush returns the errors of writing.
type printer struct {
	*bufio.Writer
	style Style
}

func (p printer) printChange(c Change) error {
	p.printHeader(c)
	if c.Old != nil && c.New != nil && bytes.Equal(c.Old.Content, c.New.Content) {
		return nil
	}
	index := fmt.Sprintf("index %s..%s", objectName(c.Old), objectName(c.New))
	if c.Old != nil && c.New != nil && c.Old.Mode == c.New.Mode {
		index += " " + string(c.New.Mode)
	}
	p.printBold(index)
	if isBinary(fileContent(c.Old)) || isBinary(fileContent(c.New)) {
		return p.printBinary(c)
	}
	return p.printHunks(c)
}

func (p printer) printHeader(c Change) {
	from, to := c.Old, c.New
	if from == nil {
		from = c.New
	}
	if to == nil {
		to = c.Old
	}
	p.printBold("diff --git " + headerName("a/", from) + " " + headerName("b/", to))
	switch {
	case c.Old == nil:
		p.printBold("new file mode " + string(c.New.Mode))
	case c.New == nil:
		p.printBold("deleted file mode " + string(c.Old.Mode))
	case from.Mode != to.Mode:
		p.printBold("old mode " + string(from.Mode))
		p.printBold("new mode " + string(to.Mode))
	}
	if from.Path != to.Path {
		p.printBold(fmt.Sprintf("similarity index %d%%", c.Similarity))
		p.printBold("rename from " + headerName("", from))
		p.printBold("rename to " + headerName("", to))
	}
}

func (p printer) printHunks(c Change) error {
	before, after := string(fileContent(c.Old)), string(fileContent(c.New))
	unified, err := udiff.ToUnified("a", "b", before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil || unified == "" {
		return err
	}
	p.printBold("--- " + headerName("a/", c.Old))
	p.printBold("+++ " + headerName("b/", c.New))
	_, hunks, _ := strings.Cut(unified, "\n+++ ")
	_, hunks, _ = strings.Cut(hunks, "\n")
	for line := range strings.Lines(hunks) {
		p.printHunkLine(strings.TrimSuffix(line, "\n"))
	}
	return nil
}

func fileContent(f *File) []byte {
	if f == nil {
		return nil
	}
	return f.Content
}

// headerName returns a file's name in a header. git quotes no name because of its spaces,
// but patch -p1 reads an unquoted name only up to the first of them.
func headerName(side string, f *File) string {
	switch {
	case f == nil:
		return "/dev/null"
	case strings.Contains(f.Path, " "):
		return quotePath(side + f.Path)
	}
	return Quote(side + f.Path)
}

// Quote returns a path as git prints it: in quotes with escapes if it has control
// characters, quotes, backslashes or bytes that are not UTF-8.
func Quote(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return path
	}
	return quotePath(path)
}

func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// printBinary prints both contents, so that the patch can be reversed.
func (p printer) printBinary(c Change) error {
	if p.style.Brief {
		p.printHunkLine("Binary files " + headerName("a/", c.Old) + " and " + headerName("b/", c.New) + " differ")
		return nil
	}
	p.printHunkLine("GIT binary patch")
	for _, f := range []*File{c.New, c.Old} {
		if err := p.printLiteral(fileContent(f)); err != nil {
			return err
		}
	}
	return nil
}

// printLiteral prints compressed content in git's base 85. A line has at most 52 bytes, after a
// letter that encodes their number.
func (p printer) printLiteral(data []byte) error {
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	p.printHunkLine(fmt.Sprintf("literal %d", len(data)))
	const most = 52
	for chunk := deflated.Next(most); len(chunk) > 0; chunk = deflated.Next(most) {
		length := byte('A' + len(chunk) - 1)
		if len(chunk) > 26 {
			length = byte('a' + len(chunk) - 27)
		}
		p.printHunkLine(string(length) + encodeBase85(chunk))
	}
	p.printHunkLine("")
	return nil
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// encodeBase85 encodes every four bytes, padded with zeros, as five digits.
func encodeBase85(data []byte) string {
	var out []byte
	for len(data) > 0 {
		var word [4]byte
		data = data[copy(word[:], data):]
		value := uint32(word[0])<<24 | uint32(word[1])<<16 | uint32(word[2])<<8 | uint32(word[3])
		var group [5]byte
		for i := 4; i >= 0; i-- {
			group[i] = digits[value%85]
			value /= 85
		}
		out = append(out, group[:]...)
	}
	return string(out)
}

// The colours of git diff.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	reset = "\x1b[m"
)

func (p printer) printBold(line string) { p.printColoured(bold, line) }

func (p printer) printHunkLine(line string) {
	switch {
	case strings.HasPrefix(line, "+"):
		p.printColoured(green, line)
	case strings.HasPrefix(line, "-"):
		p.printColoured(red, line)
	case strings.HasPrefix(line, "@@"):
		p.printColoured(cyan, line)
	default:
		p.printColoured("", line)
	}
}

func (p printer) printColoured(colour, line string) {
	if p.style.Colour && colour != "" {
		line = colour + line + reset
	}
	_, _ = p.WriteString(line + "\n")
}

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
		before, after := fileContent(c.Old), fileContent(c.New)
		s := Stat{Path: c.Path(), OldSize: len(before), NewSize: len(after), Binary: isBinary(before) || isBinary(after)}
		if c.Old != nil && c.Old.Path != s.Path {
			s.Renamed = c.Old.Path
		}
		if !s.Binary {
			for _, e := range udiff.Lines(string(before), string(after)) {
				s.Deleted += countLines(string(before[e.Start:e.End]))
				s.Added += countLines(e.New)
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
		return headerPaths(c.Old.Path, c.Path())
	}
	return Quote(c.Path())
}

// headerPaths formats the paths of a file; the first one is empty unless it was renamed.
func headerPaths(from, to string) string {
	if from == "" {
		return Quote(to)
	}
	return Quote(from) + " => " + Quote(to)
}

func countLines(s string) int {
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
		names[i] = headerPaths(s.Renamed, s.Path)
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

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
		for _, part := range c.parts() {
			if err := p.change(part); err != nil {
				return fmt.Errorf("writing the change of %s: %w", c.Path(), err)
			}
		}
	}
	return b.Flush()
}

// parts returns the change, or, as git does, the removal and the addition of a file that becomes a
// link or the reverse.
func (c Change) parts() []Change {
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

func (p printer) change(c Change) error {
	p.header(c)
	if c.Old != nil && c.New != nil && bytes.Equal(c.Old.Content, c.New.Content) {
		return nil
	}
	index := fmt.Sprintf("index %s..%s", object(c.Old), object(c.New))
	if c.Old != nil && c.New != nil && c.Old.Mode == c.New.Mode {
		index += " " + string(c.New.Mode)
	}
	p.bold(index)
	if isBinary(content(c.Old)) || isBinary(content(c.New)) {
		return p.binary(c)
	}
	return p.text(c)
}

// header prints the lines about names and modes.
func (p printer) header(c Change) {
	from, to := c.Old, c.New
	if from == nil {
		from = c.New
	}
	if to == nil {
		to = c.Old
	}
	p.bold("diff --git " + headerName("a/", from) + " " + headerName("b/", to))
	switch {
	case c.Old == nil:
		p.bold("new file mode " + string(c.New.Mode))
	case c.New == nil:
		p.bold("deleted file mode " + string(c.Old.Mode))
	case from.Mode != to.Mode:
		p.bold("old mode " + string(from.Mode))
		p.bold("new mode " + string(to.Mode))
	}
	if from.Path != to.Path {
		p.bold(fmt.Sprintf("similarity index %d%%", c.Similarity))
		p.bold("rename from " + headerName("", from))
		p.bold("rename to " + headerName("", to))
	}
}

// text prints hunks of lines with three lines of context.
func (p printer) text(c Change) error {
	before, after := string(content(c.Old)), string(content(c.New))
	unified, err := udiff.ToUnified("a", "b", before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil || unified == "" {
		return err
	}
	p.bold("--- " + headerName("a/", c.Old))
	p.bold("+++ " + headerName("b/", c.New))
	_, hunks, _ := strings.Cut(unified, "\n+++ ")
	_, hunks, _ = strings.Cut(hunks, "\n")
	for line := range strings.Lines(hunks) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// content returns the content of a file, which may be missing.
func content(f *File) []byte {
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
		return quoted(side + f.Path)
	}
	return Quote(side + f.Path)
}

// Quote returns a path as git prints it: in quotes with escapes if it has control
// characters, quotes, backslashes or bytes that are not UTF-8.
func Quote(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return path
	}
	return quoted(path)
}

func quoted(path string) string {
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

// binary prints both contents, so that the patch can be reversed.
func (p printer) binary(c Change) error {
	if p.style.Brief {
		p.line("Binary files " + headerName("a/", c.Old) + " and " + headerName("b/", c.New) + " differ")
		return nil
	}
	p.line("GIT binary patch")
	for _, f := range []*File{c.New, c.Old} {
		if err := p.literal(content(f)); err != nil {
			return err
		}
	}
	return nil
}

// literal prints compressed content in git's base 85. A line has at most 52 bytes, after a
// letter that encodes their number.
func (p printer) literal(data []byte) error {
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	p.line(fmt.Sprintf("literal %d", len(data)))
	const most = 52
	for chunk := deflated.Next(most); len(chunk) > 0; chunk = deflated.Next(most) {
		length := byte('A' + len(chunk) - 1)
		if len(chunk) > 26 {
			length = byte('a' + len(chunk) - 27)
		}
		p.line(string(length) + base85(chunk))
	}
	p.line("")
	return nil
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 encodes every four bytes, padded with zeros, as five digits.
func base85(data []byte) string {
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

func (p printer) bold(line string) { p.coloured(bold, line) }

// line prints a line of a hunk.
func (p printer) line(line string) {
	switch {
	case strings.HasPrefix(line, "+"):
		p.coloured(green, line)
	case strings.HasPrefix(line, "-"):
		p.coloured(red, line)
	case strings.HasPrefix(line, "@@"):
		p.coloured(cyan, line)
	default:
		p.coloured("", line)
	}
}

func (p printer) coloured(colour, line string) {
	if p.style.Colour && colour != "" {
		line = colour + line + reset
	}
	_, _ = p.WriteString(line + "\n")
}

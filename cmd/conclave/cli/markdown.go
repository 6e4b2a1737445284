package cli

import (
	"fmt"
	"html"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	source "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"conclave/engine/text"
)

// PrintAnswer prints a text in Markdown on stdout: rendered below a rule on a terminal that can redraw
// lines, else as it is, without control characters.
func (c *CLI) PrintAnswer(content string) error {
	width, terminal := TerminalWidth(c.Stdout)
	switch plain := strings.TrimRight(text.Terminal(content), "\n") + "\n"; {
	case !terminal || c.Scripted():
		return c.Print(plain)
	case os.Getenv("TERM") == "dumb":
		return c.Print("\n" + plain)
	}
	color := os.Getenv("NO_COLOR") == ""
	return c.Print(faint.on(strings.Repeat("─", width-1), color) + "\n" + RenderMarkdown(content, width-1, color) + "\n")
}

// FirstLine returns the first line of an answer in Markdown as plain text.
func FirstLine(answer string) string {
	const enough = 4 << 10 // bytes
	head, _ := text.Head(answer, enough)
	line, _, _ := strings.Cut(strings.TrimLeft(RenderMarkdown(head, 1<<16, false), " \n•│─"), "\n")
	return line
}

// RenderMarkdown renders an untrusted text in Markdown for a terminal with a number of columns. It removes
// control characters, and leaves raw HTML as it is.
func RenderMarkdown(content string, width int, color bool) string {
	m := markdown{source: []byte(text.Terminal(text.WithoutThoughts(content))), color: color}
	parser := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser()
	return strings.Join(m.renderBlocks(parser.Parse(source.NewReader(m.source)), width), "\n")
}

// markdown renders the nodes of a text as lines for a terminal.
type markdown struct {
	source []byte
	color  bool
}

func (m markdown) renderBlocks(parent ast.Node, width int) (lines []string) {
	list, inList := parent.Parent().(*ast.List)
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n.PreviousSibling() != nil && !(inList && list.IsTight) {
			lines = append(lines, "")
		}
		lines = append(lines, m.renderBlock(n, max(width, 20))...)
	}
	return lines
}

func (m markdown) renderBlock(n ast.Node, width int) (lines []string) {
	switch n := n.(type) {
	case *ast.Heading:
		return wrapWords(m.style(m.renderInline(n), "1", "22"), width)
	case *ast.Paragraph, *ast.TextBlock:
		return wrapWords(m.renderInline(n), width)
	case *ast.List:
		return m.renderList(n, width)
	case *ast.Blockquote:
		return indentLines(m.renderBlocks(n, width-2), "│ ", "│ ")
	case *ast.ThematicBreak:
		return []string{strings.Repeat("─", min(width, 40))}
	case *tables.Table:
		return m.renderTable(n, width)
	}
	raw := n.Lines().Sliced(0, n.Lines().Len())
	if block, ok := n.(*ast.HTMLBlock); ok && block.HasClosure() {
		raw = append(raw, block.ClosureLine)
	}
	for _, line := range raw {
		code := strings.ReplaceAll(strings.TrimRight(string(line.Value(m.source)), "\n"), "\t", "    ")
		lines = append(lines, m.style(code, string(cyan), "39"))
	}
	return indentLines(lines, "  ", "  ")
}

func wrapWords(words string, width int) []string {
	return strings.Split(ansi.Wordwrap(words, width, ""), "\n")
}

func indentLines(lines []string, first, rest string) []string {
	for i, line := range lines {
		lines[i] = strings.TrimRight(first+line, " ")
		first = rest
	}
	return lines
}

func (m markdown) renderList(list *ast.List, width int) (lines []string) {
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		if item.PreviousSibling() != nil && !list.IsTight {
			lines = append(lines, "")
		}
		indent := strings.Repeat(" ", ansi.StringWidth(mark))
		lines = append(lines, indentLines(m.renderBlocks(item, width-len(indent)), mark, indent)...)
	}
	return lines
}

// renderTable aligns the cells of a table in columns, if there is room for them.
func (m markdown) renderTable(table ast.Node, width int) (lines []string) {
	var rows [][]string
	var widths []int
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if len(cells) == len(widths) {
				widths = append(widths, 0)
			}
			content := m.renderInline(cell)
			widths[len(cells)] = max(widths[len(cells)], ansi.StringWidth(content))
			cells = append(cells, content)
		}
		rows = append(rows, cells)
	}
	for _, cells := range rows {
		line := strings.Join(cells, " | ")
		for column := range cells {
			cells[column] += strings.Repeat(" ", widths[column]-ansi.StringWidth(cells[column]))
		}
		if aligned := strings.Join(cells, "  "); ansi.StringWidth(aligned) <= width {
			line = strings.TrimRight(aligned, " ")
		}
		lines = append(lines, wrapWords(line, width)...)
	}
	return append([]string{m.style(lines[0], "1", "22")}, lines[1:]...)
}

// style turns an attribute of the terminal on and off again, and on where an inner style ends.
func (m markdown) style(words, on, off string) string {
	if !m.color || words == "" {
		return words
	}
	words = strings.ReplaceAll(words, "\x1b["+off+"m", "\x1b["+off+";"+on+"m")
	return "\x1b[" + on + "m" + words + "\x1b[" + off + "m"
}

func (m markdown) renderInline(parent ast.Node) (words string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			raw := n.Segment.Value(m.source)
			if _, code := parent.(*ast.CodeSpan); code {
				words += string(raw)
			} else {
				words += m.plainWords(raw)
			}
			if n.HardLineBreak() {
				words += "\n"
			} else if n.SoftLineBreak() {
				words += " "
			}
		case *ast.CodeSpan:
			if m.color {
				words += m.style(m.renderInline(n), string(cyan), "39")
			} else {
				words += "`" + m.renderInline(n) + "`"
			}
		case *ast.Emphasis:
			words += m.style(m.renderInline(n), []string{"", "3", "1"}[n.Level], []string{"", "23", "22"}[n.Level])
		case *ast.AutoLink:
			words += string(n.URL(m.source))
		case *ast.Link:
			words += m.renderInline(n) + m.style(" ("+m.plainWords(n.Destination)+")", string(faint), "22")
		case *ast.Image:
			words += "[image: " + m.renderInline(n) + "]"
		case *ast.RawHTML:
			words += string(n.Segments.Value(m.source))
		default:
			words += m.renderInline(n)
		}
	}
	return words
}

// plainWords resolves the escapes of a text, which may be those of control characters.
func (m markdown) plainWords(raw []byte) string {
	return text.Terminal(html.UnescapeString(string(util.UnescapePunctuations(raw))))
}

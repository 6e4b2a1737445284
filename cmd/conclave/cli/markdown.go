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
	"github.com/yuin/goldmark/parser"
	source "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"conclave/engine/text"
)

// markdown renders a text in Markdown as lines for a terminal. Control characters are removed, raw
// HTML and unknown syntax remain as they were written.
type markdown struct {
	source []byte
	color  bool
}

// RenderMarkdown renders an untrusted text in Markdown for a terminal with a number of columns.
func RenderMarkdown(content string, width int, color bool) string {
	m := markdown{source: []byte(text.Terminal(text.WithoutThoughts(content))), color: color}
	return strings.Join(m.renderBlocks(m.parseSource(), width), "\n")
}

// FirstLine returns the first line of an answer in Markdown as plain text, without its marks.
func FirstLine(answer string) string {
	const enough = 4 << 10 // bytes
	head, _ := text.Head(text.WithoutThoughts(answer), enough)
	m := markdown{source: []byte(text.Terminal(head))}
	for _, line := range m.renderBlocks(m.parseSource(), 1<<16) {
		if line = strings.TrimLeft(line, " •│─☐☑"); line != "" {
			return line
		}
	}
	return ""
}

// PrintAnswer prints a text in Markdown on stdout: rendered below a rule on a terminal that can
// redraw lines, else as it is, without control characters.
func (c *CLI) PrintAnswer(content string) error {
	if f, ok := c.Stdout.(*os.File); ok && hasTerminal(f) && !c.Scripted() {
		width, _ := TerminalWidth(f)
		color := os.Getenv("NO_COLOR") == ""
		return c.Print(faint.on(strings.Repeat("─", width-1), color) + "\n" + RenderMarkdown(content, width-1, color) + "\n")
	}
	before := ""
	if isTerminal(c.Stdout) && !c.Scripted() {
		before = "\n"
	}
	return c.Print(before + strings.TrimRight(text.Terminal(content), "\n") + "\n")
}

func (m markdown) parseSource() ast.Node {
	p := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()
	return p.Parse(source.NewReader(m.source), parser.WithContext(parser.NewContext()))
}

// renderBlocks renders the blocks in a node, with an empty line between them unless it is an item of a
// tight list.
func (m markdown) renderBlocks(parent ast.Node, width int) (lines []string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		list, tight := parent.Parent().(*ast.List)
		if n.PreviousSibling() != nil && !(tight && list.IsTight) {
			lines = append(lines, "")
		}
		lines = append(lines, m.renderBlock(n, max(width, 20))...)
	}
	return lines
}

func (m markdown) renderBlock(n ast.Node, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		return m.wrapWords(m.style(m.renderInline(n), "1", "22"), width)
	case *ast.Paragraph, *ast.TextBlock:
		return m.wrapWords(m.renderInline(n), width)
	case *ast.List:
		return m.renderList(n, width)
	case *ast.Blockquote:
		return indentLines(m.renderBlocks(n, width-2), "│ ", "│ ")
	case *ast.ThematicBreak:
		return []string{strings.Repeat("─", min(width, 40))}
	case *tables.Table:
		return m.renderTable(n, width)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		lines := m.rawLines(n)
		for i := range lines {
			lines[i] = m.style(lines[i], string(cyan), "39")
		}
		return indentLines(lines, "  ", "  ")
	}
	return m.rawLines(n)
}

func (m markdown) wrapWords(words string, width int) []string {
	return strings.Split(ansi.Wordwrap(words, width, ""), "\n")
}

func (m markdown) rawLines(n ast.Node) []string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(m.source))
	}
	if block, ok := n.(*ast.HTMLBlock); ok && block.HasClosure() {
		b.Write(block.ClosureLine.Value(m.source))
	}
	return strings.Split(strings.TrimRight(strings.ReplaceAll(b.String(), "\t", "    "), "\n"), "\n")
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
		indent := strings.Repeat(" ", ansi.StringWidth(mark))
		if item.PreviousSibling() != nil && !list.IsTight {
			lines = append(lines, "")
		}
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
			content := m.renderInline(cell)
			if _, head := row.(*tables.TableHeader); head {
				content = m.style(content, "1", "22")
			}
			if cells = append(cells, content); len(cells) > len(widths) {
				widths = append(widths, 0)
			}
			widths[len(cells)-1] = max(widths[len(cells)-1], ansi.StringWidth(content))
		}
		rows = append(rows, cells)
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for i, cells := range rows {
		if total > width {
			lines = append(lines, m.wrapWords(strings.Join(cells, " | "), width)...)
			continue
		}
		for column := range cells {
			cells[column] += strings.Repeat(" ", widths[column]-ansi.StringWidth(cells[column]))
		}
		lines = append(lines, strings.TrimRight(strings.Join(cells, "  "), " "))
		if i == 0 {
			lines = append(lines, strings.Repeat("─", total))
		}
	}
	return lines
}

// style turns an attribute of the terminal on and off again, and on where an inner style ends.
func (m markdown) style(words, on, off string) string {
	if !m.color || words == "" {
		return words
	}
	words = strings.ReplaceAll(words, "\x1b["+off+"m", "\x1b["+off+";"+on+"m")
	return "\x1b[" + on + "m" + words + "\x1b[" + off + "m"
}

func (m markdown) renderInline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		b.WriteString(m.renderSpan(n))
	}
	return b.String()
}

func (m markdown) renderSpan(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		words := m.plainWords(n.Segment.Value(m.source))
		switch {
		case n.HardLineBreak():
			words += "\n"
		case n.SoftLineBreak():
			words += " "
		}
		return words
	case *ast.String:
		return m.plainWords(n.Value)
	case *ast.CodeSpan:
		code := ""
		for part := n.FirstChild(); part != nil; part = part.NextSibling() {
			if words, ok := part.(*ast.Text); ok {
				code += string(words.Segment.Value(m.source))
			}
		}
		if code = strings.ReplaceAll(code, "\n", " "); !m.color {
			return "`" + code + "`"
		}
		return m.style(code, string(cyan), "39")
	case *ast.Emphasis:
		if n.Level > 1 {
			return m.style(m.renderInline(n), "1", "22")
		}
		return m.style(m.renderInline(n), "3", "23")
	case *tables.Strikethrough:
		return m.style(m.renderInline(n), "9", "29")
	case *tables.TaskCheckBox:
		if n.IsChecked {
			return "☑ "
		}
		return "☐ "
	case *ast.AutoLink:
		return string(n.URL(m.source))
	case *ast.Link:
		words, to := m.renderInline(n), m.plainWords(n.Destination)
		if words == to {
			return to
		}
		return words + m.style(" ("+to+")", "2", "22")
	case *ast.Image:
		return "[image: " + m.renderInline(n) + "]"
	case *ast.RawHTML:
		return string(n.Segments.Value(m.source))
	}
	return m.renderInline(n)
}

// plainWords resolves the escapes of a text, which may be those of control characters.
func (m markdown) plainWords(raw []byte) string {
	return text.Terminal(html.UnescapeString(string(util.UnescapePunctuations(raw))))
}

package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"conclave/engine/loop"
)

// read shows an image, or lines of a text file as they are, so that they can be given to
// edit_file. What is not shown is said in a last line in brackets.
func (f *Files) read(a arguments) (loop.Output, error) {
	name, err := inside(a.Path)
	if err != nil {
		return loop.Output{}, err
	}
	file, info, err := f.open(name)
	if err != nil {
		return loop.Output{}, err
	}
	defer func() { _ = file.Close() }()

	if info.Size() > maxBytes {
		return loop.Output{}, refuse("%s has %s; at most %s can be read", quote(name), size(info.Size()), size(maxBytes))
	}
	in := bufio.NewReaderSize(io.LimitReader(file, maxBytes), 64<<10)
	head, err := in.Peek(8 << 10)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return loop.Output{}, explain(name, err)
	case len(head) == 0:
		return loop.Output{Text: fmt.Sprintf("[%s is empty]", quote(name))}, nil
	case mediaType(head) != "":
		return f.show(name, mediaType(head), in)
	case isBinary(head):
		return loop.Output{Text: fmt.Sprintf("[%s is a binary file of %s; its content is not shown]", quote(name), size(info.Size()))}, nil
	}
	text, err := readText(in, name, info.Size(), a)
	return loop.Output{Text: text}, err
}

// readText shows the lines that are asked for.
func readText(in *bufio.Reader, name string, whole int64, a arguments) (string, error) {
	first := max(1, clamp(a.Offset, 1<<40))
	limit := maxLines
	if a.Limit > 0 {
		limit = clamp(a.Limit, maxLines)
	}
	page, err := readPage(in, first, limit)
	if err != nil {
		return "", explain(name, err)
	}
	return page.show(name, size(whole)), nil
}

// page is a run of lines of a file.
type page struct {
	text  strings.Builder
	first int // number of the first line asked for
	next  int // number of the first line not shown
	more  bool
}

func readPage(in *bufio.Reader, first, limit int) (*page, error) {
	p := &page{first: first, next: 1}
	for {
		line, dropped, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		if dropped > 0 {
			line += fmt.Sprintf("… [%d more bytes of this line]\n", dropped)
		}
		if p.next >= first {
			if p.next == first+limit || p.text.Len()+len(line) > maxOutput {
				p.more = true
				return p, nil
			}
			p.text.WriteString(line)
		}
		p.next++
	}
}

func (p *page) show(name, whole string) string {
	switch {
	case p.next <= p.first:
		return fmt.Sprintf("[%s has only %d lines; there is no line %d]", quote(name), p.next-1, p.first)
	case p.more:
		return fmt.Sprintf("%s[lines %d-%d of %s (%s in all); read on with offset %d]",
			ended(p.text.String()), p.first, p.next-1, quote(name), whole, p.next)
	default:
		return p.text.String()
	}
}

// readLine returns the next line with its line end. Of a line over maxLine
// bytes it returns the beginning and how many bytes were dropped. At the end it
// returns io.EOF.
func readLine(in *bufio.Reader) (text string, dropped int, err error) {
	var line []byte
	for {
		chunk, err := in.ReadSlice('\n')
		room := min(len(chunk), max(0, maxLine-len(line)))
		line = append(line, chunk[:room]...)
		dropped += len(chunk) - room
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return "", 0, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return "", 0, err
		}
		return strings.ToValidUTF8(string(line), "\uFFFD"), dropped, nil
	}
}

func ended(text string) string {
	if strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// clamp is n as an int of at most most.
func clamp(n float64, most int) int { return int(min(n, float64(most))) }

package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"conclave/activities/sandbox"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
)

// readFile shows an image, or lines of a text file or of a PDF's text, followed by a note in brackets that tells
// how to continue.
func (f *fileTools) readFile(ctx context.Context, a arguments) (loop.Output, error) {
	name, err := cleanPath(a.Path)
	if err != nil {
		return loop.Output{}, err
	}
	file, info, err := f.openRegular(name)
	if err != nil {
		return loop.Output{}, err
	}
	defer func() { _ = file.Close() }()

	if info.Size() > maxBytes {
		return loop.Output{}, refuse("%s has %s; at most %s can be read", quote(name), text.Size(info.Size()), text.Size(maxBytes))
	}
	in := bufio.NewReaderSize(io.LimitReader(file, maxBytes), 64<<10)
	head, err := in.Peek(8 << 10)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return loop.Output{}, explain(name, err)
	case len(head) == 0:
		return loop.Output{Text: fmt.Sprintf("[%s is empty]", quote(name))}, nil
	case llm.Image{Data: head}.Format() != "":
		return f.showImage(name, in)
	case sandbox.IsPDF(head):
		return readPDF(ctx, in, name, info.Size(), a)
	case isRecording(head):
		return loop.Output{Text: fmt.Sprintf("[%s is sound or video of %s, which cannot be shown; work from a transcript or pictures of it]", quote(name), text.Size(info.Size()))}, nil
	case isBinary(head):
		return loop.Output{Text: fmt.Sprintf("[%s is a binary file of %s; its content is not shown]", quote(name), text.Size(info.Size()))}, nil
	}
	shown, err := readText(in, name, info.Size(), a)
	return loop.Output{Text: shown}, err
}

// isRecording reports whether content begins as a file of sound or video does.
func isRecording(head []byte) bool {
	kind := http.DetectContentType(head)
	return strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") || kind == "application/ogg" ||
		len(head) > 2 && head[0] == 0xFF && head[1]&0xE6 == 0xE2 // an MP3 without tags
}

func readPDF(ctx context.Context, in io.Reader, name string, size int64, a arguments) (loop.Output, error) {
	content, err := sandbox.ReadPDF(ctx, in)
	if fault, isFault := errors.AsType[*sandbox.DocumentError](err); isFault {
		return loop.Output{Text: fmt.Sprintf("[%s is a PDF document that cannot be read: %s]", quote(name), fault.Reason)}, nil
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return loop.Output{}, err
	case err != nil: // a fault of this host is no reason to end a step
		return loop.Output{Text: fmt.Sprintf("[%s is a PDF document, and this host cannot read documents]", quote(name)), Failed: true}, nil
	}
	shown, err := readText(bufio.NewReaderSize(strings.NewReader(content), 64<<10), name, size, a)
	return loop.Output{Text: shown}, err
}

func readText(in *bufio.Reader, name string, total int64, a arguments) (string, error) {
	first := max(1, clamp(a.Offset, 1<<40))
	limit := maxLines
	if a.Limit > 0 {
		limit = clamp(a.Limit, maxLines)
	}
	page, err := readPage(in, first, limit)
	if err != nil {
		return "", explain(name, err)
	}
	return page.formatLines(name, text.Size(total)), nil
}

type page struct {
	text  strings.Builder
	first int // number of the first requested line
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

func (p *page) formatLines(name, total string) string {
	switch {
	case p.next <= p.first:
		return fmt.Sprintf("[%s has only %d lines; there is no line %d]", quote(name), p.next-1, p.first)
	case p.more:
		return fmt.Sprintf("%s[lines %d-%d of %s (%s in all); read on with offset %d]",
			p.text.String(), p.first, p.next-1, quote(name), total, p.next)
	default:
		return p.text.String()
	}
}

// readLine returns the next line, truncated to maxLine bytes, and the number of bytes that it dropped.
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

func clamp(n float64, limit int) int { return int(min(n, float64(limit))) }

func (f *fileTools) showImage(name string, in *bufio.Reader) (loop.Output, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile)) // larger than any image that is shown
	if err != nil {
		return loop.Output{}, explain(name, err)
	}
	shown := llm.Image{Data: data}
	shown.MediaType = shown.Format()
	if err := shown.CheckWhole(); err != nil {
		return loop.Output{Text: fmt.Sprintf("[%s is an image (%s) that cannot be shown: %v]", quote(name), shown.MediaType, err)}, nil
	}
	if f.images == maxImages {
		return loop.Output{Text: fmt.Sprintf("[%s is an image; the limit of %d images in one turn is reached]", quote(name), maxImages)}, nil
	}
	f.images++
	return loop.Output{
		Text:   fmt.Sprintf("[%s is an image (%s, %s); it is shown below]", quote(name), shown.MediaType, text.Size(int64(len(data)))),
		Images: []llm.Image{shown},
	}, nil
}

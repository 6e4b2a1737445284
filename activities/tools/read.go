package tools

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // decodes GIF
	_ "image/jpeg" // decodes JPEG
	_ "image/png"  // decodes PNG
	"io"
	"net/http"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// read shows an image, or lines of a text file unchanged, so that they can be passed to edit_file. A
// last line in brackets describes the rest.
func (f *fileTools) read(a arguments) (loop.Output, error) {
	name, err := cleanPath(a.Path)
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
		return f.showImage(name, mediaType(head), in)
	case isBinary(head):
		return loop.Output{Text: fmt.Sprintf("[%s is a binary file of %s; its content is not shown]", quote(name), size(info.Size()))}, nil
	}
	text, err := readText(in, name, info.Size(), a)
	return loop.Output{Text: text}, err
}

// readText shows the requested lines of a file with total bytes.
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
	return page.show(name, size(total)), nil
}

// page is a run of lines of a file.
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

func (p *page) show(name, total string) string {
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

// readLine returns the next line with its line end, truncated to maxLine bytes, and
// the number of dropped bytes; io.EOF after the last line.
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

// clamp converts n to an int of at most limit.
func clamp(n float64, limit int) int { return int(min(n, float64(limit))) }

// Limits of a shown image, below those of the providers: an image that they refuse would end the step.
const (
	maxImage  = 5 << 20 // bytes
	maxSide   = 8000    // pixels
	maxPixels = 32 << 20
)

// mediaType detects the type of an image that can be shown; empty for any other file.
func mediaType(head []byte) string {
	kind := http.DetectContentType(head)
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return kind
	}
	return ""
}

// showImage shows an image, or explains why it cannot be shown.
func (f *fileTools) showImage(name, kind string, in *bufio.Reader) (loop.Output, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxImage+1))
	if err != nil {
		return loop.Output{}, explain(name, err)
	}
	describe := func(format string, args ...any) (loop.Output, error) {
		return loop.Output{Text: fmt.Sprintf("[%s "+format+"]", append([]any{quote(name)}, args...)...)}, nil
	}
	if len(data) > maxImage {
		return describe("is an image of more than %s; make a smaller one to look at it", size(maxImage))
	}
	width, height, err := dimensions(kind, data)
	switch {
	case err != nil:
		return describe("begins like an image (%s) but cannot be shown: %v", kind, err)
	case width > maxSide || height > maxSide || width*height > maxPixels:
		return describe("is an image of %d x %d pixels; make a smaller one, of at most %d on a side, to look at it", width, height, maxSide)
	case f.images >= maxImages:
		return describe("is an image; the limit of %d images in one turn is reached", maxImages)
	}
	f.images++
	out, err := describe("is an image (%s, %d x %d pixels, %s); it is shown below", kind, width, height, size(int64(len(data))))
	out.Images = []llm.Image{{MediaType: kind, Data: data}}
	return out, err
}

// dimensions decodes an image to be sure that it is whole.
func dimensions(kind string, data []byte) (width, height int, err error) {
	if kind == "image/webp" {
		return 0, 0, wholeWebP(data)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	width, height = config.Width, config.Height
	if width > maxSide || height > maxSide || width*height > maxPixels {
		return width, height, nil // too large to be decoded
	}
	_, _, err = image.Decode(bytes.NewReader(data))
	return width, height, err
}

// wholeWebP checks the RIFF chunk of a WebP file against the file's size.
func wholeWebP(data []byte) error {
	const header = 12
	if len(data) < header+8 || int64(binary.LittleEndian.Uint32(data[4:8]))+8 > int64(len(data)) {
		return io.ErrUnexpectedEOF
	}
	if form := string(data[header : header+4]); form != "VP8 " && form != "VP8L" && form != "VP8X" {
		return fmt.Errorf("unknown form %q", form)
	}
	return nil
}
